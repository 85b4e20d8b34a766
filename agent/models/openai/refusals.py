"""What an endpoint's failures mean: to try again, to ask in a simpler way, or to tell the person what to do."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from foregate.agent.models.openai.abilities import list_refused
from foregate.agent.models.openai.ability import SIMPLER
from foregate.agent.models.openai.bad_calls import CallRefused, is_about_call
from foregate.agent.models.openai.endpoint import Endpoint
from foregate.agent.models.openai.overflow import is_overflow, measure_overflow
from foregate.agent.models.openai.refusal import EndpointRefusal, read_refusal
from foregate.agent.models.openai.retries import Transient
from foregate.agent.models.openai.waits import read_wait
from foregate.schemas.errors import ContextTooLong, ModelError, ToolsRefused
from foregate.schemas.strict_json import Json

if TYPE_CHECKING:
    from openai import APIConnectionError, APIError


RETRYABLE = (408, 409, 429)
TOOLLESS = (*SIMPLER, 404, 500)
"""Those with which they refuse tools altogether."""

NO_TOOLS = (
    "not support tool",
    "found that support tool use",
    "tools param requires --jinja",
    "unsupported param: tools",
    "requires --enable-auto-tool-choice",
)
"""What Ollama, OpenRouter, llama.cpp (two of its ages) and vLLM say where a model or a server takes no tools."""
OF_TOOLS = ("tool use", "tool call", "function calling", "function call", "tools are not", "tool choice")
NONE_OF_IT = ("not support", "unsupported", "not enabled", "not available", "not allowed")

NO_CREDIT = ("insufficient_quota", "billing_not_active", "insufficient_balance", "insufficient_funds")
FINAL = ("invalid_request_error", "badrequesterror", "bad_request_error", "invalid_argument", "validationexception")
"""Types of an error without a status that no repetition changes."""

NO_JSON = "check that OPENAI_BASE_URL names an OpenAI-compatible endpoint (it usually ends in /v1)"
AGAIN = "try again later"
CHECK = "check that the server runs and that OPENAI_BASE_URL is right"
_MOST_CAUSES = 20


class FeatureDeclined(Exception):
    """The endpoint refuses one of the features in `found`, each with what is learnt of it; the likeliest is first.

    `otherwise` is what to raise where to leave out any of them would change nothing.
    """

    def __init__(self, found: Sequence[tuple[str, Json]], otherwise: Exception) -> None:
        super().__init__(", ".join(name for name, _ in found))
        self.found, self.otherwise = found, otherwise


class InBand(Exception):
    """An answer of status 200 holds a `refusal`."""

    def __init__(self, refusal: EndpointRefusal) -> None:
        super().__init__(refusal.words)
        self.refusal = refusal


def translate_error(error: APIError, endpoint: Endpoint, body: Mapping[str, Json]) -> Exception:
    """Return what to raise for a failure of the client: Transient, FeatureDeclined or ModelError."""
    from openai import APIConnectionError, APIStatusError, APITimeoutError

    if isinstance(error, APIStatusError):
        refusal = read_refusal(error.status_code, error.body)
        return explain_refusal(refusal, endpoint, body, error.response.headers)
    if isinstance(error, APITimeoutError):
        if any(type(cause).__name__ == "ConnectTimeout" for cause in _list_causes(error)):
            return Transient(f"{endpoint.url} takes no connection: nothing there answered in time", CHECK)
        return Transient(f"{endpoint.url} did not answer in time", "try again, or allow more time")
    if isinstance(error, APIConnectionError):
        return _translate_connection(error, endpoint)
    said = error.body if isinstance(error.body, (Mapping, list)) else {"message": error.body or error.message}
    return explain_refusal(read_refusal(0, said), endpoint, body)


def translate_in_band(error: Json) -> InBand:
    """Return what to raise for an `error` that came inside an answer of status 200."""
    return InBand(read_refusal(0, error))


def explain_refusal(
    refusal: EndpointRefusal, endpoint: Endpoint, body: Mapping[str, Json], headers: Mapping[str, str] | None = None
) -> Exception:
    """Return what to raise for a refusal of `body`: Transient, FeatureDeclined, CallRefused or ModelError."""
    if is_about_call(refusal):
        return CallRefused(refusal)
    final = _explain_plainly(refusal, endpoint, body, headers)
    found = () if "tools" in body and _names_no_tools(refusal) else tuple(list_refused(refusal, body))
    return FeatureDeclined(found, final) if found else final


def _explain_plainly(
    refusal: EndpointRefusal, endpoint: Endpoint, body: Mapping[str, Json], headers: Mapping[str, str] | None
) -> Exception:
    """Return what a refusal means where no part of the body can be left out."""
    status, words = refusal.status, refusal.words
    said, model = endpoint.clean(words), endpoint.clean(body.get("model"))
    because = f"{status}: {said}" if status and said else f"{status or said or 'no reason given'}"
    if refusal.says(*NO_CREDIT) or status == 402:
        why = f"the account behind the key at {endpoint.url} has no credit left ({because})"
        return ModelError(f"{why}; top it up or use another")
    if is_overflow(refusal):
        why = f"what is asked is too long for the model `{model}` ({because})"
        return ContextTooLong(f"{why}; ask for less, start a new session or use another", *measure_overflow(refusal))
    if "tools" in body and _is_about_missing_tools(refusal):
        refused = f"{endpoint.url} takes no tools for the model `{model}` ({because})"
        return ToolsRefused(f"{refused}; use another model, or `--dialect json`")
    if status in RETRYABLE or (status >= 500 and status != 501) or (not status and not refusal.says(*FINAL)):
        what = "limits the rate of requests" if status == 429 else "failed" if status else "failed while answering"
        wait = read_wait(headers or {}, refusal, datetime.now(UTC))
        return Transient(f"{endpoint.url} {what} ({because})", AGAIN, wait)
    return ModelError(_build_sentence(refusal, endpoint.url, model, because))


def _build_sentence(refusal: EndpointRefusal, url: str, model: str, because: str) -> str:
    """Return the one sentence for a refusal that no repetition will change."""
    status, words = refusal.status, refusal.words.lower()
    if 300 <= status < 400:
        why = f"{url} redirects elsewhere, which is never followed with a key"
        return f"{why}; set OPENAI_BASE_URL to the final address"
    if status == 401 or refusal.says("invalid_api_key", "api_key_invalid"):
        return f"the endpoint refused the key ({because}); set OPENAI_API_KEY to a key that {url} accepts"
    if status == 403:
        return f"{url} does not allow this key to use the model `{model}` ({because}); use another key or model"
    if refusal.says("model_not_found") or (status == 404 and "model" in words):
        return f"{url} does not know the model `{model}` ({because}); set FOREGATE_MODEL to one it has"
    if status == 404:
        return f"{url} has no such address ({because}); {NO_JSON}"
    return f"{url} refused the request ({because}); change the request or the model"


def _is_about_missing_tools(refusal: EndpointRefusal) -> bool:
    """Whether a refusal says that there are no tools for the model at all; a failure only does in words we know."""
    words = refusal.words.lower()
    if refusal.status in TOOLLESS and _names_no_tools(refusal):
        return True
    of_tools = refusal.param == "tools" or any(said in words for said in OF_TOOLS)
    return refusal.status in SIMPLER and of_tools and any(said in words for said in NONE_OF_IT)


def _names_no_tools(refusal: EndpointRefusal) -> bool:
    words = refusal.words.lower().replace("tool_choice", "").replace("tool choice", "")
    return any(said in words for said in NO_TOOLS)


def _translate_connection(error: APIConnectionError, endpoint: Endpoint) -> Exception:
    for cause in _list_causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                why = f"the certificate of {endpoint.url} cannot be verified"
                return ModelError(f"{why}; install its authority on this machine")
            case ConnectionRefusedError():
                return Transient(f"{endpoint.url} cannot be reached: nothing listens there", CHECK)
            case socket.gaierror():
                why = f"{endpoint.url} cannot be reached: the name {urlsplit(endpoint.url).hostname} has no address"
                return Transient(why, "check the network, and that OPENAI_BASE_URL is right")
            case OSError(errno=errno.ENETUNREACH | errno.EHOSTUNREACH | errno.ENETDOWN):
                why = f"{endpoint.url} cannot be reached: there is no way to it"
                return Transient(why, "check the network, and that OPENAI_BASE_URL is right")
    return Transient(f"{endpoint.url} cannot be reached or broke the connection", CHECK)


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, each attempt at one of several addresses too."""
    waiting, seen = [error], 0
    while waiting and seen < _MOST_CAUSES:
        cause = waiting.pop(0)
        seen += 1
        yield cause
        waiting += cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
        below = cause.__cause__ or cause.__context__
        waiting += [below] if below is not None else []

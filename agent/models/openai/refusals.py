"""What an endpoint's failures mean: to try again, to ask in a simpler way, or to tell the person what to do."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from foregate.agent.models.openai.endpoint import Endpoint
from foregate.agent.models.openai.retries import Transient, read_retry_after
from foregate.schemas.errors import ModelError, ToolsRefused
from foregate.schemas.strict_json import Json, get_object, get_text

if TYPE_CHECKING:
    from openai import APIConnectionError, APIError, APIStatusError


LIMITS = ("max_tokens", "max_completion_tokens")
"""The names of the bound on a response's tokens, the one most endpoints know first."""
RETRYABLE = (408, 409, 429)
SIMPLER = (400, 422, 501)
"""Statuses with which endpoints refuse a part of a request they do not know."""
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

NO_JSON = "check that OPENAI_BASE_URL names an OpenAI-compatible endpoint (it usually ends in /v1)"
AGAIN = "try again later"
CHECK = "check that the server runs and that OPENAI_BASE_URL is right"
_MOST_CAUSES = 20


class FeatureDeclined(Exception):
    """The endpoint refuses the feature this names, without which the request can be asked."""


def translate_error(error: APIError, endpoint: Endpoint, body: Mapping[str, Json]) -> Exception:
    """Return what to raise for a failure of the client: Transient, FeatureDeclined or ModelError."""
    from openai import APIConnectionError, APIStatusError, APITimeoutError

    if isinstance(error, APIStatusError):
        return _translate_status(error, endpoint, body)
    if isinstance(error, APITimeoutError):
        if any(type(cause).__name__ == "ConnectTimeout" for cause in _list_causes(error)):
            return Transient(f"{endpoint.url} takes no connection: nothing there answered in time", CHECK)
        return Transient(f"{endpoint.url} did not answer in time", "try again, or allow more time")
    if isinstance(error, APIConnectionError):
        return _translate_connection(error, endpoint)
    return translate_in_band(error.body if isinstance(error.body, Mapping) else {"message": error.message}, endpoint)


def translate_in_band(error: Json, endpoint: Endpoint) -> Exception:
    """Return what to raise for an `error` that came inside an answer of status 200."""
    error = error if isinstance(error, Mapping) else {"message": error}
    code = error.get("code")
    said = endpoint.clean(error.get("message")) or "no reason given"
    if isinstance(code, int) and 400 <= code < 500 and code not in RETRYABLE:
        return ModelError(f"{endpoint.url} refused the request ({code}: {said}); change the request or the model")
    return Transient(f"{endpoint.url} failed while answering ({said})", AGAIN)


def _translate_status(error: APIStatusError, endpoint: Endpoint, body: Mapping[str, Json]) -> Exception:
    status, message = error.status_code, _read_message(error.body)
    said = endpoint.clean(message)
    if status == 429 and error.code in ("insufficient_quota", "billing_not_active"):
        return ModelError(f"the account behind the key at {endpoint.url} has no credit left; top it up or use another")
    if "tools" in body and _is_about_missing_tools(status, message, str(error.param or "")):
        refused = f"{endpoint.url} takes no tools for the model `{body.get('model', '')}`"
        return ToolsRefused(f"{refused}; use another model, or `--dialect json`")
    if status in RETRYABLE or (status >= 500 and status != 501):
        wait = read_retry_after(error.response.headers, datetime.now(UTC))
        what = "limits the rate of requests" if status == 429 else "failed"
        return Transient(f"{endpoint.url} {what} ({status}{said and ': '}{said})", AGAIN, wait)
    if status in SIMPLER and (feature := _find_declined_feature(message, str(error.param or ""), body)):
        return FeatureDeclined(feature)
    return ModelError(_build_sentence(error, endpoint, str(body.get("model", "")), said))


def _build_sentence(error: APIStatusError, endpoint: Endpoint, model: str, said: str) -> str:
    """Return the one sentence for a refusal that no repetition will change."""
    url, status, code = endpoint.url, error.status_code, error.code or ""
    because = f": {said}" if said else ""
    message = _read_message(error.body).lower()
    if 300 <= status < 400:
        why = f"{url} redirects elsewhere, which is never followed with a key"
        return f"{why}; set OPENAI_BASE_URL to the final address"
    if status == 401:
        return f"the endpoint refused the key; set OPENAI_API_KEY to a key that {url} accepts"
    if status == 403:
        return f"{url} does not allow this key to use the model `{model}` (403{because}); use another key or model"
    if code == "model_not_found" or (status == 404 and "model" in message):
        return f"{url} does not know the model `{model}`; set FOREGATE_MODEL to one it has"
    if status == 404:
        return f"{url} has no such address (404{because}); {NO_JSON}"
    if code == "context_length_exceeded" or "context length" in message:
        why = f"the conversation is too long for the model `{model}`{because}"
        return f"{why}; start a new session or use another model"
    return f"{url} refused the request ({status}{because}); change the request or the model"


def _find_declined_feature(message: str, param: str, body: Mapping[str, Json]) -> str:
    """Return the feature of `body` that a refusal speaks of, "" when it speaks of something else."""
    words = f"{param} {message}".lower()
    if "stream_options" in body and ("stream_options" in words or "include_usage" in words):
        return "stream_options"
    if "tools" in body and "description" in words and ("too long" in words or "at most" in words):
        return "long_descriptions"
    if "stop" in body and (param == "stop" or "'stop'" in words or "`stop`" in words or "stop sequence" in words):
        return "stop"
    if "temperature" in body and "temperature" in words:
        return "temperature"
    limit = next((name for name in LIMITS if name in body), "")
    if limit and any(name in words for name in LIMITS):
        return limit
    asked = get_text(get_object(body, "response_format"), "type", "")
    spoken = ("response_format", "json_schema", "json_object", "json mode", "structured output")
    return asked if asked and any(word in words for word in spoken) else ""


def _is_about_missing_tools(status: int, message: str, param: str) -> bool:
    """Whether a refusal says that there are no tools for the model at all; a failure only does in words we know."""
    words = message.lower()
    if status in TOOLLESS and any(said in words for said in NO_TOOLS):
        return True
    of_tools = param == "tools" or any(said in words for said in OF_TOOLS)
    return status in SIMPLER and of_tools and any(said in words for said in NONE_OF_IT)


def _read_message(body: object) -> str:
    """Return an error body's words and the places it names, never what it repeats of our request."""
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        body = inner.get("message", inner.get("detail")) if isinstance(inner, Mapping) else inner
    if isinstance(body, list):
        found = [item for item in body[:20] if isinstance(item, Mapping)]
        places = [(item.get("loc"), item.get("msg")) for item in found]
        return " ".join(f"{'.'.join(map(str, loc))} {msg}" for loc, msg in places if isinstance(loc, list))[:4000]
    return body[:4000] if isinstance(body, str) else ""


def _translate_connection(error: APIConnectionError, endpoint: Endpoint) -> Exception:
    for cause in _list_causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                why = f"the certificate of {endpoint.url} cannot be verified"
                return ModelError(f"{why}; install its authority on this machine")
            case ConnectionRefusedError():
                return Transient(f"{endpoint.url} cannot be reached: nothing listens there", CHECK)
            case socket.gaierror():
                why = f"{endpoint.url} cannot be reached: nobody knows the address of {urlsplit(endpoint.url).hostname}"
                return Transient(why, "check the network, and that OPENAI_BASE_URL is right")
            case OSError(errno=errno.ENETUNREACH | errno.EHOSTUNREACH | errno.ENETDOWN):
                why = f"{endpoint.url} cannot be reached: there is no way to it"
                return Transient(why, "check the network, and that OPENAI_BASE_URL is right")
    return Transient(f"{endpoint.url} cannot be reached or broke the connection", CHECK)


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it came of, each attempt at one of several addresses too."""
    waiting, seen = [error], 0
    while waiting and seen < _MOST_CAUSES:
        cause = waiting.pop(0)
        seen += 1
        yield cause
        waiting += cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
        below = cause.__cause__ or cause.__context__
        waiting += [below] if below is not None else []

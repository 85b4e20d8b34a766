"""What an endpoint's failures mean: to try again, to ask in a simpler way, or to tell the person what to do."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from foregate.agent.models.openai.abilities import list_refused
from foregate.agent.models.openai.ability import SIMPLER
from foregate.agent.models.openai.bad_calls import CallRefused, is_about_call
from foregate.agent.models.openai.endpoint import Endpoint
from foregate.agent.models.openai.refusal import EndpointRefusal, read_refusal
from foregate.agent.models.openai.retries import Transient, read_wait
from foregate.schemas.errors import ContextTooLong, ModelError, ToolsRefused
from foregate.schemas.late_pattern import compile_late
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


_CODES = (
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "model_max_prompt_tokens_exceeded",
    "request_too_large",
    "string_above_max_length",
    "context_window_exceeded",
    "contextwindowexceedederror",
    "1261",
)
"""OpenAI and many; llama.cpp; z.ai; Copilot; Anthropic; OpenAI for one message; kin; LiteLLM; Zhipu."""
_LIMITS = ("n_ctx", "max_context_length", "max_model_len", "context_length", "context_window", "max_input_tokens")
_ASKED = ("n_prompt_tokens", "prompt_tokens", "requested_tokens", "input_tokens", "n_tokens", "total_tokens")
_OF_MESSAGES = ("", "messages", "message", "input", "prompt", "contents", "inputs")
"""What of a request `param` names where the conversation is too long; an answer's bound or a tool is something else."""
_SMALLEST = 64
"""A number below this counts no tokens of a context."""

_TEXT = r"(?:context|prompt|inputs?|sequence|conversation|messages?|tokens)"
_EXCESS = r"(?:too (?:long|large|big)|exceed\w*|longer than|greater than|larger than|over the|overflow\w*)"
_TOO_LONG = compile_late(
    "|".join(
        (
            # "prompt is too long: 9 tokens > 8 maximum", "Your input exceeds the context window of this model"
            rf"\b{_TEXT}(?:\b|_)[^.;]{{0,80}}\b{_EXCESS}",
            # "request (9412 tokens) exceeds the available context size", "exceeded model token limit: 8192"
            rf"\b(?:{_EXCESS}|reached|fit)\b[^.;]{{0,80}}\b(?:context|prompt|input|token limit|number of tokens)",
            # "This model's maximum context length is 8192 tokens", "maximum prompt length is 131072"
            r"max(?:imum)?[ _](?:context|prompt|input|sequence|model)[ _]?(?:len|size|window)",
            # "Please reduce the length of the messages or completion", "reduce your prompt; or completion length"
            r"reduce (?:the (?:length|size) of )?(?:the|your|either)\b[^.;]{0,20}(?:message|prompt|input|one\b)",
            # "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000"
            r"too many (?:input |prompt |total )?tokens|token limit exceeded|exceed\w* (?:the )?token limit",
            # "`inputs` tokens + `max_new_tokens` must be <= 4096", "`inputs` must have less than 4095 tokens"
            r"inputs?\W{0,2}(?: tokens)?[^.;]{0,40} must (?:be|have) (?:<|less|at most)",
            # "Range of input length should be [1, 129024]", "the context length of only 4096 tokens"
            r"range of input length|context (?:length|window|size)(?: is| of)? (?:only )?(?:\d|full)|n_ctx",
            # "Request too large for model", "413 Request Entity Too Large"
            r"(?:request|payload|content)(?: entity| body)? too large|message size",
            "超长|超过最大长度|上下文长度|输入长度",
        )
    ),
    # re.IGNORECASE.
    2,
)
_BOUND = compile_late(
    r"(?<!by )(?:max\w*|limit(?:ed to)?|only|most|allowed|less than|supports|exceed\w*|should be \[\d+,"
    r"|(?:context|configured|available) (?:length|window|size))[^0-9.;]{0,60}?(?<![\w.-])(\d[\d,]*\d)\b"
    r"|(?<![\w.-])(\d[\d,]*\d)(?: tokens)? (?:max(?:imum)?|limit|context)\b",
    2,
    # "maximum context length is 8192 tokens", "too large for model with 32768 maximum context length".
)
# "210000 tokens > 200000 maximum", "must be <= 4096".
_COMPARED = compile_late(r"[<>]=? (\d[\d,]*)\b")
# "exceeded max context length by 5000 tokens".
_BY = compile_late(r"\bby (\d[\d,]*)")
# "5,123"; "4" in "gpt-4" and "2" in "v1.2" are no numbers of tokens.
_NUMBER = compile_late(r"(?<![\w.-])\d[\d,]*\b(?!-)")
_TOKENS = compile_late(r"(?<!completion )(?<!output )(?<!new )\btokens?\b|seq_len", 2)
"""Words beside a number above its bound: "This model supports at most 4096 tokens, you sent 5123"."""
_RATE = compile_late(r"rate.?limit|too many requests|per (?:minute|day|hour)|throttl|quota|overloaded", 2)
"""Words of what passes: "Rate limit reached ... on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000"."""
# "Request too large for this model".
_NEVER_FITS = compile_late(r"request too large|must be reduced|reduce your message size", 2)
"""Those of a limit on a rate that one request passes by itself: to wait does not help."""


def is_overflow(refusal: EndpointRefusal) -> bool:
    """Whether a refusal says that a request is longer than the model takes, by its code, status, fields or words.

    >>> is_overflow(Refusal(400, "prompt is too long: 210000 tokens > 200000 maximum"))
    True
    """
    if refusal.param.split("[")[0].split(".")[0].lower() not in _OF_MESSAGES or refusal.status in (401, 402, 403, 404):
        return False
    # Rates are counted in tokens too, so they are told apart before any number is read.
    if _RATE.search(refusal.words) or refusal.status == 429:
        return _NEVER_FITS.search(refusal.words) is not None
    if refusal.says(*_CODES) or refusal.status == 413:
        return True
    if _find(refusal, _LIMITS) and _find(refusal, _ASKED) > _find(refusal, _LIMITS):
        return True
    if refusal.status in (408, 409, 502, 503, 504):
        return False
    counted = _TOKENS.search(refusal.words) is not None and measure_overflow(refusal)[1] > 0
    return counted or _TOO_LONG.search(refusal.words) is not None


def measure_overflow(refusal: EndpointRefusal) -> tuple[int, int]:
    """Return the limit that a refusal names and how much was asked for, each 0 where it does not say.

    Both are in the endpoint's own measure, mostly tokens. What is asked for counts the answer where the endpoint does.

    >>> measure_overflow(Refusal(400, "input and `max_tokens` exceed context limit: 188240 + 21333 > 200000"))
    (200000, 209573)
    """
    if limit := _find(refusal, _LIMITS):
        asked = _find(refusal, _ASKED)
        return limit, asked if asked > limit else 0
    # By how much a request is too long is neither the limit nor its length.
    words = _BY.sub(" ", refusal.words)
    numbers = list(dict.fromkeys(number for one in _NUMBER.findall(words) if (number := _read_number(one))))[:8]
    found = [*_COMPARED.findall(words), *(one or other for one, other in _BOUND.findall(words))]
    limits = [number for number in dict.fromkeys(map(_read_number, found)) if number]
    for limit in sorted(limits, reverse=True):
        others = [number for number in numbers if number != limit]
        if over := [number for number in others if number > limit]:
            return limit, max(over)
        # Some name the request and the answer apart, and only their sum is too much.
        if sums := [sum(pair) for pair in combinations(others, 2) if sum(pair) > limit]:
            return limit, min(sums)
    alone = next(iter(limits), 0)
    return (0 if f"({alone})" in words else alone), 0


def _find(refusal: EndpointRefusal, names: tuple[str, ...]) -> int:
    return next((refusal.numbers[name] for name in names if name in refusal.numbers), 0)


def _read_number(text: str) -> int:
    digits = text.replace(",", "")
    number = int(digits) if digits and len(digits) < 12 else 0
    return number if number >= _SMALLEST else 0

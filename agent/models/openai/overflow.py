"""Requests that are longer than a model takes: how endpoints say so, and the numbers they give."""

from __future__ import annotations

from itertools import combinations

from foregate.agent.models.openai.refusal import EndpointRefusal
from foregate.schemas.late_pattern import compile_late

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
    words = _BY.sub(" ", refusal.words)
    numbers = list(dict.fromkeys(number for one in _NUMBER.findall(words) if (number := _read_number(one))))[:8]
    found = [*_COMPARED.findall(words), *(one or other for one, other in _BOUND.findall(words))]
    limits = [number for number in dict.fromkeys(map(_read_number, found)) if number]
    for limit in sorted(limits, reverse=True):
        others = [number for number in numbers if number != limit]
        if over := [number for number in others if number > limit]:
            return limit, max(over)
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

"""A call of the model's that its own endpoint refused: it is read out of the refusal, and answered to the model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from json import JSONDecoder

from foregate.agent.models.openai.mending import mend_arguments, mend_name
from foregate.agent.models.openai.refusal import EndpointRefusal, list_objects
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.message import WireNames
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.strict_json import Json, scrub
from foregate.schemas.tool_call import ToolCall

_CODES = ("tool_use_failed", "output_parse_failed", "tool_call_parse_error", "malformed_function_call")
_JSON_CODES = ("json_validate_failed",)
"""Groq's for an answer that should have been JSON and is none."""
_WORDS = compile_late(
    "|".join(
        (
            # "attempted to call tool 'x' which was not in request.tools", "Tool call validation failed"
            r"not in request\.tools|tool call validation failed|tool choice is none, but model called",
            # "Failed to call a function. Please adjust your prompt.", "The model generated output that could not ..."
            r"failed to call a function|model (?:generated|produced|returned)[^.]{0,40}could not be parsed",
            # "Failed to parse tool call arguments as JSON", "error parsing tool call: raw='{', err=..."
            r"(?:failed to pars\w*|error pars\w*|could not parse|unable to parse)[^.]{0,20} tool[ _]calls?",
            # "Failed to parse input at pos 0: <tool_call>"
            r"failed to parse input at pos|malformed[ _]function[ _]call|error in extracting tool call",
        )
    ),
    # re.IGNORECASE.
    2,
)
# re.DOTALL: `error parsing tool call: raw='{"a":', err=...`.
_RAW = compile_late(r"raw='(.{1,4000}?)', err=", 16)
# "Failed to parse input at pos 0: <tool_call>...".
_AT = compile_late(r"at pos \d+: (.{1,4000})", 16)
# "attempted to call tool 'x' which", "parameters for tool edit did not match schema".
_NAMED = compile_late(r"(?:call tool|for tool|tool call|function) [`'\"]?([\w.:-]{1,256})[`'\"]? (?:which|did|is|was)")
# "<function=read_file>{\"path\": \"a\"}".
_FUNCTION = compile_late(r"<function[=(]([\w.:-]{1,256})[)>]?\s*(?=\{)")
# '{"name": "read_file", "arguments": {'.
_NAME = compile_late(r'"(?:name|tool|tool_name)"\s*:\s*"([^"\\]{1,256})"')
_NAMES, _ARGUMENTS = ("name", "tool", "tool_name"), ("arguments", "parameters", "args", "input", "tool_input")
_PASSING = (408, 409, 429, 502, 503, 504)
_OBJECTS = JSONDecoder()


class CallRefused(Exception):
    """The endpoint refused what the model wrote, which is in its `refusal`; to ask again may bring the same."""

    def __init__(self, refusal: EndpointRefusal) -> None:
        super().__init__(refusal.words)
        self.refusal = refusal


def is_about_call(refusal: EndpointRefusal) -> bool:
    """Whether a refusal is of what the model wrote, not of what it was asked."""
    if refusal.status in _PASSING:
        return False
    return refusal.says(*_CODES, *_JSON_CODES) or _WORDS.search(refusal.words) is not None


def build_refused(refusal: EndpointRefusal, said: str, names: WireNames) -> ModelResponse:
    """Return the response that was refused, as far as it can be read; `said` are the endpoint's words, cleaned.

    Calls that can be read are those calls. Else there is one call with a defect, which names the tool where it can.
    What should have been JSON and is none is a text.
    """
    notes = (f"the endpoint refused what the model wrote: {said}",)
    text = scrub(refusal.generated or _find_quoted(refusal.words))
    if refusal.says(*_JSON_CODES):
        return ModelResponse(text=text, finish_reason="other", notes=notes)
    read = [(names.to_own(mend_name(scrub(name), names.is_known)), scrub(raw)) for name, raw in list_calls(text)]
    calls = tuple(ToolCall.parse(name, mend_arguments(raw)) for name, raw in read)
    if not calls:
        found = _NAME.search(text) or _FUNCTION.search(text) or _NAMED.search(refusal.words)
        name = names.to_own(found[1]) if found is not None else "unnamed"
        why = f"the endpoint could make no call of this ({said}); send it as the tool's schema wants it"
        calls = (ToolCall.from_defect(name, text, why),)
    return ModelResponse(calls=calls, finish_reason="tool_calls", notes=notes)


def list_calls(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and arguments of each call that can be read in what a model wrote.

    >>> list(list_calls('<function=read_file>{"path": "a"}</function>'))
    [('read_file', '{"path": "a"}')]
    """
    tagged = list(_FUNCTION.finditer(text))
    for match in tagged:
        try:
            _, end = _OBJECTS.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        yield match[1], text[match.end() : end]
    for value in () if tagged else list_objects(text):
        yield from _read_calls(value, 0)


def _read_calls(value: Json, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, list) and depth < 3:
        for item in value:
            yield from _read_calls(item, depth + 1)
    if not isinstance(value, Mapping) or depth > 3:
        return
    inner = next((value[key] for key in ("tool_calls", "function", "function_call") if key in value), None)
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    if isinstance(inner, (list, Mapping)):
        yield from _read_calls(inner, depth + 1)
    elif isinstance(name, str):
        arguments = next((value[key] for key in _ARGUMENTS if key in value), {})
        yield name, arguments if isinstance(arguments, str) else json.dumps(arguments)


def _find_quoted(words: str) -> str:
    """Return what the model wrote where the endpoint's words repeat it."""
    found = _RAW.search(words) or _AT.search(words)
    return found[1] if found is not None else ""

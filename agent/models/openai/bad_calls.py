"""Calls an endpoint spelled badly or refused: mended where one thing can be meant, else answered to the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from json import JSONDecoder

from foregate.agent.models.openai.refusal import EndpointRefusal, list_objects
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.message import WireNames
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.strict_json import Json, scrub
from foregate.schemas.tool_call import ToolCall

_LABELLED = compile_late(r"(?:(?:functions|default_api|tools?)[.:/])?(?P<name>[^.:/<\s][^<\s]*?)(?::\d+)?")
"""A name in the place that providers give it: `functions.read_file:0`, `default_api:read_file`, `tool.read_file`."""
# "<|channel|>commentary to=functions.read_file".
_TO = compile_late(r"\bto=(?:functions\.)?(?P<name>[^\s<]+)")
_LEAK = "<|"
"""How tokens begin that leak into names, as in `read_file<|channel|>commentary`."""
# re.DOTALL: "```json\n{...}\n```".
_FENCED = compile_late(r"```(?:json)?\s*\n(?P<inside>.*?)\s*```", 16)
_SCHEMA_OBJECTS = JSONDecoder()
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


def mend_name(name: str, is_known: Callable[[str], bool]) -> str:
    """Return the known tool that a name certainly means, the name itself where it is known or means none.

    >>> mend_name(" functions.read_file:0", {"read_file"}.__contains__)
    'read_file'
    """
    if is_known(name):
        return name
    bare = name.partition(_LEAK)[0].strip()
    match, to = _LABELLED.fullmatch(bare), _TO.search(name)
    spelled = [bare, match["name"] if match is not None else "", to["name"] if to is not None else ""]
    for meant in (*spelled, "_".join(bare.split()), "".join(bare.split())):
        if meant and is_known(meant):
            return meant
    return name


def mend_arguments(raw: str) -> str:
    """Return the JSON object that arguments certainly are, the arguments themselves where they are one or none is.

    Certain are: the same object more than once, beside empty ones; an object written as a JSON string, or in a fence;
    `null` and nothing at all for no arguments.

    >>> mend_arguments('{}{"path":"a"}{"path":"a"}')
    '{"path":"a"}'
    """
    text = raw.strip().removeprefix("\ufeff")
    if not text or text == "null":
        return "{}"
    if (fenced := _FENCED.fullmatch(text)) is not None:
        text = fenced["inside"]
    elif text[0] == '"':
        text = _read_string(text)
        text = _read_string(text) if text[:1] == '"' else text
    objects = _split_objects(text.strip())
    said = [one for one, value in objects if value] or [one for one, _ in objects[:1]]
    values = [value for _, value in objects if value]
    return said[0] if said and all(value == values[0] for value in values) else raw


def _read_string(text: str) -> str:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


def _split_objects(text: str) -> list[tuple[str, object]]:
    """Return the JSON objects a text is made of, each with its value; none where there is anything else in it."""
    found: list[tuple[str, object]] = []
    at = 0
    while at < len(text):
        try:
            value, end = _SCHEMA_OBJECTS.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        found.append((text[at:end], value))
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return found


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

"""Finds the calls that a text holds in a model's own tokens, and tells a stream what may be shown before they begin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from foregate.agent.dialects.dialect import ParsedResponse
from foregate.agent.dialects.token_formats import (
    AROUND,
    BEGINS,
    TokenPlace,
    is_tool,
    read_harmony,
    read_json_calls,
    read_python,
    read_section,
)
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec

# "<tool_call>", "[TOOL_CALLS]".
_BEGIN = compile_late(BEGINS)
_BEGUN = compile_late(r"(?:<[^\s<>{}]{0,60}|\[[A-Z_]{0,12}|<\|(?:start|channel)\|>[^{]{0,80})\Z")
"""What may become a token: `<tool_ca`, `[TOOL_`, `<|channel|>commentary t`."""
# "```python".
_FENCE = compile_late(r"^[ ]{0,3}(?:```|~~~)", re.MULTILINE)
# '{"name"', "[read_file(", "commentary to=".
_WHOLE = compile_late(
    r"\s*(?:\{\s*\"(?:name|function|type|tool_name)\"|\[\s*(?:\{\s*\"|\w{1,200}\()|(?:commentary|assistant)?\s*to=)"
)
_MAY_BE_WHOLE = compile_late(
    r"\s*(?:\{\s*(?:\"\w{0,9})?|\[\s*(?:\{\s*|\w{0,200})?|(?:commentary|assistant)\s*(?:to?)?|[ca]\w{0,9}|to?)?"
)
"""What may become a text that is nothing but a call: `{"na`, `[read_fi`, ` to`."""
_MOST_TRIED = 64
"""Tokens that turn out to be words after which no more are looked at, so that a text of them costs no time squared."""
_SHORTEST_LOOK = 256
_LONGEST_END = 1024
_RARE = ("<\uff5c", "<|")
"""How tokens begin that stand in no text about anything else, even within a line."""
# "<|end|>".
_LEFT = compile_late(r"\s*<\|end\|>\s*\Z")
_UNREAD = "this begins a call and names no tool; send the call as a function call, or answer in words"
_WORDS_ONLY = "this call was written into the text, and no calls are taken now; answer in words"
_NOT_RUN = "this call was written into the text, so it did not run; send it as a function call, not as words"


def find_calls(text: str, tools: Sequence[ToolSpec]) -> ParsedResponse:
    """Return the calls a text holds in tokens, and the words that are left of it; what stands in code is words.

    Tokens begin a call at the beginning of a line, or where nothing but calls for known tools follows them. JSON and
    Python are calls where they are the whole text and name known tools.
    """
    known = {spec.name: spec for spec in tools}
    if calls := read_whole(text, known):
        return ParsedResponse(calls=tuple(calls))
    found: list[ToolCall] = []
    words: list[str] = []
    at = kept = tried = fences = looked = 0
    left = 3 * len(text)
    while tried < _MOST_TRIED and (begin := _BEGIN.search(text, at)) is not None:
        at, tried = begin.end(), tried + 1
        fences += len(_FENCE.findall(text, looked, begin.start()))
        looked = begin.start()
        line = text[max(kept, text.rfind("\n", kept, begin.start()) + 1) : begin.start()]
        if fences % 2 or line.count("`") % 2:
            continue
        place = TokenPlace(text, begin.start(), known, left)
        calls = [call for read, _ in read_section(place) for call in read]
        left = place.left
        is_last = len(text) - place.at < _LONGEST_END and not text[place.at :].strip()
        is_sure = begin[0][:2] in _RARE or all(is_tool(one.name, known) for one in calls)
        if not calls:
            at = max(at, place.at)
        elif not line.strip() or (is_last and is_sure):
            words.append(text[kept : begin.start()])
            found += calls
            kept = at = looked = place.at
            tried -= 1
    if not found:
        return ParsedResponse(text, tuple(read_empty(text)))
    said = "".join((*(_LEFT.sub("", one) for one in words), text[kept:])).strip()
    return ParsedResponse(said, tuple(found))


def read_empty(text: str) -> Iterator[ToolCall]:
    """Yield a call that cannot be read for a text that is nothing but tokens around none."""
    if text.lstrip()[:2] in (*_RARE, "[T") and _BEGIN.match(text.lstrip()):
        place = TokenPlace(text, 0, {}, len(text))
        list(read_section(place))
        if place.at == len(text):
            yield ToolCall.from_defect("unreadable", text.strip(), _UNREAD)


def read_whole(text: str, known: Mapping[str, ToolSpec]) -> Sequence[ToolCall]:
    """Return the calls of a text that is nothing but JSON or Python which calls known tools, or a message to one."""
    bare = text.strip()
    place = TokenPlace(bare, 0, known, 3 * len(bare))
    if bare[:1] in ("{", "[") or (_WHOLE.match(bare) and bare[:1].isalpha()):
        calls: list[ToolCall] = []
        while place.at < len(bare):
            read = read_harmony(place) if bare[0] not in "{[" else read_json_calls(place) or read_python(place)
            if read is None or not all(is_tool(call.name, known) for call in read[0]):
                return ()
            if any(call.arguments is None and call.raw.rstrip()[-1:] != "}" for call in read[0]) and bare[0] in "{[":
                return ()
            calls += read[0]
            place.at = read[1]
            while (around := place.match(AROUND)) is not None:
                place.at = around.end()
        return calls if bare[0] == "[" or _has_arguments(bare) else ()
    return ()


def _has_arguments(bare: str) -> bool:
    """Whether an object has what makes it a call: an answer in JSON may have a name, too."""
    return re.search(r"\"(?:arguments|parameters|args|input)\"\s*:|to=", bare) is not None


def refuse_calls(response: ModelResponse, tools: Sequence[ToolSpec]) -> ModelResponse:
    """Return a response whose text holds calls as one with a call that cannot be read, whose defect says what to do."""
    if response.calls:
        return response
    found = find_calls(response.text, tools)
    if not found.calls:
        return response
    first = found.calls[0]
    call = ToolCall.from_defect(first.name, response.text, (first.defect or _NOT_RUN) if tools else _WORDS_ONLY)
    finish = "tool_calls" if response.finish_reason == "stop" else response.finish_reason
    notes = ("a call came as text in the model's own tokens; with `--dialect auto` such calls run",) if tools else ()
    return replace(response, text=found.text, calls=(call,), finish_reason=finish, notes=(*response.notes, *notes))


class TokenFormats:
    """What builds a reader of calls in tokens; nobody is taught them."""

    def build_reader(self, tools: Sequence[ToolSpec]) -> TokenReader:
        """Return a reader of one response."""
        return TokenReader(tools)


class TokenReader:
    """A `Reader` of texts that are words, and perhaps calls in tokens from somewhere on."""

    def __init__(self, tools: Sequence[ToolSpec] = ()) -> None:
        self._tools, self._text = tools, list[str]()
        self._waiting, self._head, self._ticks, self._fences = "", "", 0, 0
        self._is_held = self._is_begun = False

    @property
    def calls(self) -> Sequence[ToolCall]:
        """None: what a token begins is known at the end."""
        return ()

    def feed(self, text: str) -> str:
        self._text.append(text)
        if self._is_held:
            return ""
        self._waiting += text
        if not self._is_begun:
            if len(self._waiting) < _SHORTEST_LOOK and _MAY_BE_WHOLE.fullmatch(self._waiting):
                return ""
            self._is_begun, self._is_held = True, _WHOLE.match(self._waiting) is not None
        return "" if self._is_held else self._take_words()

    def _take_words(self) -> str:
        """Return what stands before the first token that is not in code; it and all behind it wait for the end."""
        shown, at = "", 0
        while (begin := _BEGIN.search(self._waiting, at)) is not None:
            shown += self._note(self._waiting[at : begin.start()])
            if not (self._fences % 2 or self._ticks % 2):
                self._waiting, self._is_held = self._waiting[begin.start() :], True
                return shown
            shown += self._note(begin[0])
            at = begin.end()
        begun = _BEGUN.search(self._waiting, max(at, len(self._waiting) - 2 * 64))
        size = begun.start() if begun is not None else len(self._waiting)
        shown += self._note(self._waiting[at:size])
        self._waiting = self._waiting[size:]
        return shown

    def _note(self, words: str) -> str:
        """Note where words end: in which line, and in code or not."""
        for number, line in enumerate(words.split("\n")):
            if number:
                self._fences += _FENCE.match(self._head) is not None
                self._head, self._ticks = "", 0
            self._head = (self._head + line)[:8]
            self._ticks += line.count("`")
        return words

    def close(self) -> ParsedResponse:
        """Return the calls of the text, and what is left of it."""
        return find_calls("".join(self._text), self._tools)

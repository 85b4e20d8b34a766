"""Calls as JSON in a text: one object or a list, bare, in a code fence, or the first balanced object among words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from foregate.agent.dialects import prose
from foregate.agent.dialects.dialect import RESULT, Dialect, ParsedResponse, Reader
from foregate.agent.dialects.json_calls import Brackets, Calls, Known, gather_calls
from foregate.agent.dialects.window import CDATA, CDATA_END, COMMENT, COMMENT_END, Tag, Waits, Window
from foregate.schemas import strict_json
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.message import Message
from foregate.schemas.model_response import Block
from foregate.schemas.strict_json import Json
from foregate.schemas.thoughts import THOUGHTS
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec

_SECTION = """\
To use a tool, write one JSON object in a code block and nothing after it:

```json
{{"tool": "<name>", "args": {{...}}, "reasoning": "<why>"}}
```

Several calls go into one list. `{{"parallel": [...]}}` around calls that do not need each other runs them at once, \
`{{"sequential": [...]}}` in turn, up to the first that fails; inside it the string `$result_of_step_N` stands for the \
result of its Nth item, `$result_of_step_N.key[0]` for a part of it. Results come back as JSON in the next message. To \
answer, write words without any such JSON.

The tools, each with the JSON Schema of its `args`:
{tools}"""
_AGAIN = "only the first JSON of a response is read as calls; send this one again, or all of them in one list"
_INERT = ((COMMENT, COMMENT_END), (CDATA, CDATA_END))
_MARKS = (COMMENT, CDATA, f"<{RESULT}", *(f"{begin}{name}" for begin in ("<", "</") for name in THOUGHTS))
_MARK = "|".join(map(re.escape, _MARKS))
_BEGUN = "|".join(sorted({re.escape(mark[:size]) for mark in _MARKS for size in range(1, len(mark))}))
# '{"', "```".
_SPECIAL = compile_late(
    rf"""(?P<json>\{{\s*+"|\[\s*+\{{)|(?P<mark>{_MARK})|(?P<line>\n(?=[ ]{{0,3}}(?:`|\Z)))|"""
    rf"""(?P<code>`|~{{3}})|(?:[{{\[]\s*+|{_BEGUN}|~{{1,2}})\Z""",
    re.IGNORECASE,
)
"""What is to be looked at: a mark that begins a piece, a line that may be a fence, at the end what may become one."""
# "```json".
_FENCE = compile_late(r"[ ]{0,3}```")
# "``": the rest of a fence may arrive with the next piece.
_MAYBE_FENCE = compile_late(r"[ ]{0,3}`{0,2}\Z")
# "```" alone on its line.
_FENCE_END = compile_late(r"^[ ]{0,3}```[ \t]*$", re.MULTILINE)
_RUN = r"(`{3,}+|~{3,}+)[ \t]*+"
# "```python\n".
_CODE = compile_late(rf"{_RUN}([A-Za-z0-9_+#.-]{{1,40}}+)[ \t]*+\r?\n")
# "```pyth".
_MAYBE_CODE = compile_late(rf"{_RUN}[A-Za-z0-9_+#.-]{{0,40}}+[ \t]*+\r?\Z")
_LANGUAGES = ("", "json", "tool_call", "tool_calls")
# '```json {"tool": "list_files"}```'.
_IN_LINE = compile_late(r"(`{3,})(?:json|tool_calls?)[ \t]+([{\[].*[}\]])[ \t]*\1", re.IGNORECASE)
"""A fence within one line, which by the book is inline code: its language says that it is meant as a call."""

_Kind = Literal["words", "thought", "end", "json", "cut"]
"""What a piece of a text is: `json` may hold calls, an `end` is that of a thought which did not begin here, `cut` the
result a model made up and all that follows."""


class TextSplitter:
    """Hands on a text in pieces, in order and without gaps: words as they come, the others when they are whole.

    `take` is given what a piece is, the piece as written, and JSON or a thought without its marks.
    """

    def __init__(self, window: Window, take: Callable[[_Kind, str, str], None]) -> None:
        self._window, self._take = window, take
        self._inline = prose.InlineCode(window)
        self._ticks = (-1, "")
        """Backticks that opened no code within their line, and where they ended."""
        self.notes: list[str] = []

    def read(self) -> Waits[None]:
        """Read the text to its end."""
        window = self._window
        while True:
            if window.is_at_line_start and (yield from window.peek(_FENCE, _MAYBE_FENCE, to_end=False)):
                if not (yield from self._read_code_in_line()):
                    yield from self._read_fence()
                continue
            special = _SPECIAL.search(window.text, window.at)
            self._add_words(window.take(special.start() if special else len(window.text)))
            match special and special.lastgroup:
                case "json":
                    yield from self._read_json()
                case "mark":
                    yield from self._read_mark()
                case "code":
                    yield from self._read_code()
                case "line":
                    self._add_words(window.skip(1))
                case _:
                    if not (yield from window.wait_for_more()):
                        self._add_words(window.take(len(window.text)))
                        return

    def _add_words(self, text: str) -> None:
        if text:
            self._take("words", text, "")

    def _read_fence(self) -> Waits[None]:
        """Read a fence to its closing line; what stands in one of another language is words."""
        opening, opened = yield from self._window.read_until("\n")
        opening += "\n" * opened
        if opened and opening.partition("```")[2].strip().lower() in _LANGUAGES:
            lines: list[str] = []
            closing = yield from self._read_to_closing(lines.append)
            inner = "".join(lines)
            self._take("json", opening + inner + closing, inner)
        else:
            self._add_words(opening)
            self._add_words((yield from self._read_to_closing(self._add_words)))

    def _read_code(self) -> Waits[None]:
        """Read inline code, or a fence of another language that opens behind words, in a quotation or a list."""
        window = self._window
        if window.text[window.at] == "`":
            if (yield from self._read_code_in_line()):
                return
            run = self._inline.run
            self._ticks = window.position + len(run), run
            if len(run) < 3:
                self._add_words(window.skip(len(run)))
                return
        code = yield from window.peek(_CODE, _MAYBE_CODE, to_end=False)
        if code is None or code[2].lower() in _LANGUAGES:
            # "```", "~~~~".
            fence = re.compile(_RUN).match(window.text, window.at)
            assert fence is not None
            self._add_words(window.take(fence.end()))
            return
        self._add_words(window.take(code.end()))
        # "```" or longer, also in a quotation: "> ```".
        closing = re.compile(rf"^[ \t>]*+{code[1]}{code[1][0]}*+[ \t]*\r?$", re.MULTILINE)
        self._add_words((yield from self._read_to_closing(self._add_words, closing)))

    def _read_code_in_line(self) -> Waits[bool]:
        """Read code that begins here and ends in the same line, and return whether there is any."""
        if self._window.text[self._window.at] != "`" or not (length := (yield from self._inline.peek_length())):
            return False
        code = self._window.skip(length)
        fenced = _IN_LINE.fullmatch(code)
        self._take("json" if fenced else "words", code, fenced[2] if fenced else "")
        return True

    def _read_to_closing(self, keep: Callable[[str], None], closing: re.Pattern[str] = _FENCE_END) -> Waits[str]:
        """Read the lines of a fence, and return the one that closes it, "" where none does."""
        window = self._window
        while True:
            end = closing.search(window.text, window.at)
            keep(window.take(end.start() if end else window.text.rfind("\n", window.at) + 1))
            if (end and end.end() < len(window.text)) or not (yield from window.wait_for_more()):
                break
        if end is None:
            keep(window.take(len(window.text)))
        return window.take(end.end()) if end else ""

    def _read_json(self) -> Waits[None]:
        """Read JSON to its last bracket, else to the end; between backticks it is an example, also over lines."""
        window, brackets, pieces = self._window, Brackets(), []
        ticks = self._ticks[1] if self._ticks[0] == window.position else ""
        while True:
            end, closed = brackets.scan(window.text, window.at)
            pieces.append(window.take(end))
            if closed or not (yield from window.wait_for_more()):
                break
        whole = "".join(pieces) if closed else "".join((*pieces, window.take(len(window.text))))
        if ticks and closed and (yield from window.is_next(ticks)):
            self._add_words(whole + window.skip(len(ticks)))
        else:
            self._take("json", whole, whole)

    def _read_mark(self) -> Waits[None]:
        """Read a comment, CDATA, a thought, the end of one or a result; what only begins like one is words."""
        window = self._window
        for begin, end in _INERT:
            if (yield from window.is_next(begin)):
                text, closed = yield from window.read_until(end)
                self._add_words(text + end * closed)
                if not closed:
                    self.notes.append(prose.NO_END.format(end))
                return
        tag = yield from window.peek_tag()
        name = tag.name.lower() if tag is not None else ""
        if tag is not None and tag.kind == "open" and name in THOUGHTS:
            yield from self._read_thought(tag)
        elif tag is not None and tag.kind == "close" and name in THOUGHTS:
            self._take("end", window.skip(len(tag.text)), "")
        elif tag is not None and name == RESULT:
            window.skip(len(tag.text))
            rest = yield from window.read_rest()
            self.notes += prose.note_cut(f"`<{tag.name}>`", rest, prose.NO_RESULTS)
            self._take("cut", tag.text + rest, "")
        else:
            self._add_words(window.skip(1))

    def _read_thought(self, tag: Tag) -> Waits[None]:
        """Read a thought to its end; thoughts in it belong to it."""
        self._window.record = []
        self._window.skip(len(tag.text))
        inner, closed = yield from self._window.read_inside(tag.name)
        if not closed:
            self.notes.append(prose.OPEN_THOUGHT.format(tag.name))
        self._take("thought", self._window.end_record(), inner)


class JsonReader:
    """A `Reader`: the first JSON that holds calls, which are known at its last bracket, is taken out of the text."""

    def __init__(self, known: Known = frozenset()) -> None:
        self._known = known
        self._window, self._words, self._found = Window(), prose.Words(), Calls()
        self._thoughts: list[str] = []
        self._later = 0
        pieces = TextSplitter(self._window, self._take)
        self._notes = pieces.notes
        self._running = pieces.read()
        next(self._running)

    @property
    def calls(self) -> Sequence[ToolCall]:
        """The calls that are complete by now; what follows adds to them, or says that all of it was a thought."""
        return self._found.calls

    def feed(self, text: str) -> str:
        self._window.push(text)
        next(self._running, None)
        return self._words.take_new()

    def close(self) -> ParsedResponse:
        self._window.ended = True
        next(self._running, None)
        if self._later > 1:
            self._notes.append(f"{self._later - 1} more pieces of JSON with calls were left out")
        return ParsedResponse(
            self._words.text,
            tuple(self._found.calls),
            "\n".join([*self._thoughts, *self._found.reasons]).strip(),
            self._found.order,
            tuple(self._found.deferred),
            tuple(self._notes),
        )

    def _take(self, kind: _Kind, whole: str, inner: str) -> None:
        match kind:
            case "thought":
                self._thoughts.append(inner.strip())
            # All that came so far was one: its calls are dropped.
            case "end" if not self._thoughts:
                if self._found.calls:
                    self._notes.append(prose.ONLY_THOUGHT.format(whole))
                self._thoughts.append(self._words.take_all())
                self._found, self._later = Calls(), 0
            case "json" if self._gather_calls(inner):
                pass
            case "words" | "json":
                self._words.add(strict_json.scrub(whole))

    def _gather_calls(self, text: str) -> bool:
        """Gather the calls of a piece and return whether it holds any; the first are made, the second refused."""
        gathered, found = gather_calls(text, self._known), self._found
        if gathered.calls and not found.calls:
            self._found = gathered
        elif gathered.calls:
            self._later += 1
            if self._later == 1:
                before = len(found.calls)
                found.calls += [ToolCall.from_defect(one.name, one.raw, one.defect or _AGAIN) for one in gathered.calls]
                found.order = found.order and Block("sequential", (found.order, *range(before, len(found.calls))))
        return bool(gathered.calls)


def parse_text(text: str, known: Known = frozenset()) -> ParsedResponse:
    """Return what a whole text says."""
    reader = JsonReader(known)
    reader.feed(text)
    return reader.close()


class JsonDialect(Dialect):
    """The dialect for models that only write text."""

    def build_section(self, tools: Sequence[ToolSpec]) -> str:
        return _SECTION.format(tools="\n".join(_render_tool(spec) for spec in tools))

    def build_reader(self, tools: Sequence[ToolSpec]) -> Reader:
        """Return a reader; an unknown tool is a call like any other, which the judge refuses."""
        return JsonReader(frozenset(spec.name for spec in tools))

    def render_message(self, message: Message) -> str:
        """Return words and calls; the calls stand first where the words would hide them."""
        if not message.calls:
            return message.text
        words, block = message.text.strip(), f"```json\n{_render_calls(message)}\n```"
        if not words:
            return block
        after, known = f"{words}\n\n{block}", frozenset(call.name for call in message.calls)
        return after if parse_text(after, known).text == words else f"{block}\n\n{words}"

    def render_answers(self, answers: Sequence[tuple[str, str]]) -> str:
        return _render_json({"results": [{"tool": name, "answer": strict_json.parse(text)} for name, text in answers]})


def _render_calls(message: Message) -> str:
    """Return the calls of a message as JSON: one object, or a list, or blocks."""
    entries: list[Json] = [
        {"tool": call.name, "args": dict(call.arguments) if call.arguments is not None else call.raw}
        for call in message.calls
    ]
    if message.order is not None:
        return _render_json(_lay_out(message.order, entries))
    return _render_json(entries[0] if len(entries) == 1 else entries)


def _lay_out(block: Block, entries: Sequence[Json]) -> Json:
    items = [entries[item] if isinstance(item, int) else _lay_out(item, entries) for item in block.items]
    return {block.kind: items}


def _render_json(value: Json) -> str:
    return strict_json.canonical(value).decode()


def _render_tool(spec: ToolSpec) -> str:
    return f"- {_render_json(spec.name)}: {' '.join(spec.description.split())} {_render_json(dict(spec.parameters))}"

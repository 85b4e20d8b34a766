"""The words of a response: where in them a tag may stand, and what of them is code, an example that never runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Literal

from msgspec.structs import replace

from foregate.agent.dialects.dialect import GENERIC, MARKUP, RESULT
from foregate.agent.dialects.window import Waits, Window
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import is_foreign_name, is_offered_elsewhere

Mark = Literal["tag", "answer", "end"]
NO_RESULTS = "results come from the tools, never from the model"
NO_END = "`{}` never came; what stands before it was taken as words"
OPEN_THOUGHT = "`<{}>` was not closed; what stands after it was taken as a thought"
ONLY_THOUGHT = "calls before `{}` stood in a thought; they were not made"
# "``".
_RUN = compile_late(r"`+")
# "``", "\n": code in a line ends with as many backticks as began it, or with the line.
_RUN_OR_LINE = compile_late(r"`+|\n")
_SPECIAL = compile_late(r"`|<(?:(?=[A-Za-z_/!]|[^\x00-\x7f])|\Z)|\n(?=[ \t>#*_+0-9.)-]*+(?:[`~ft]|\Z))", re.IGNORECASE)
"""What is to be looked at: a backtick, a `<` that may begin a tag, a line that may be a fence or announce an answer."""
# "```python", "- ~~~", "> ```": in a list and in a quotation, too.
_FENCE = compile_late(r"[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)?+(`{3,}+|~{3,}+)([^\n]*+)")
# "> ``".
_MAYBE_FENCE = compile_late(r"[ \t>]*+(?:(?:[-*+]|\d{1,9}+[.)]?+)[ \t]*+)?+(?:`*+|~*+)\Z")
# "> ```".
_FENCE_END = compile_late(r"^[ \t>]*+(`{3,}+|~{3,}+)[ \t]*+\r?$", re.MULTILINE)
# "**Final answer:**", "finial anwser:": models misspell it.
_ANSWER = compile_late(
    r"[ \t>#*_]{0,16}+(?:the )?(?:final|finial|finall|fianl|finla|fnal)[ \t_-]{0,4}+"
    r"(?:answers?|answe|answer?e|anwser|anser|awnser|asnwer|answear|ansewr|answr)\b[ \t*_]{0,8}+[:\uff1a][*_]{0,8}+",
    re.IGNORECASE,
)
# "**Fin".
_MAYBE_ANSWER = compile_late(r"(?=[^\n]{0,63}\Z)[ \t>#*_]*+(?:\Z|[ft])", re.IGNORECASE)
_SHOWN = 60
_NAME = r"[^\W\d][\w.:-]*+"
# "</answer>", "`$result_of_step_1.path`".
_TOKEN = compile_late(
    rf"(?P<between>[\s\"'.,;]++)|</?(?P<tag>{_NAME})(?:\s[^<>]*+)?/?>"
    r"|`?\$(?P<result>result_of_step_[0-9]{1,9})(?:\.[A-Za-z_]\w*+|\[[0-9]{1,6}\])*+(?!\w)`?"
)
# "</ans", "$result_of".
_BEGUN = compile_late(rf"</?(?:{_NAME}(?:\s[^<>]*+|/)?+)?+|`?(?:\$\w*+)?+|\[[0-9]*+")
"""What may become a tag or the name of a result."""
# "<answer>".
_OPENING = compile_late(rf"<(?P<tag>{_NAME})(?:\s[^<>]*+)?>")
_ANSWERS = frozenset(
    ["answer", "final", "final_answer", "finalanswer", "output", "reply", "response", "summary", "message"]
)
"""Tags in which models put what they answer, so that what stands in them are words."""
_WORDS = MARKUP | _ANSWERS
_CALLS = frozenset([GENERIC, "function_call", "function_calls", "invoke", "tool_call", "tool_calls", "tool_use"])
"""Tags in which models put a call, whatever the tool."""
# "read_file".
_WORD = compile_late(_NAME)
_CALLED = compile_late(rf"[\"'](?P<quoted>{_NAME})[\"']|[<=](?P<tag>{_NAME})")
"""Where a call has the name of its tool: `"name": "Bash"`, `<bash>`, `<function=bash>`."""
_NAMED = "a result has a name only in the arguments of a call, so make that call or answer in words"
_TAGGED = "call a tool that is offered, or answer in words, with markup in a code block"


def note_cut(mark: str, rest: str, why: str) -> list[str]:
    """Return the note that the rest of a response was cut behind a mark; none where it was blank."""
    return [f"what stood after {mark} was cut ({len(rest)} characters): {why}"] if rest.strip() else []


class InlineCode:
    """Looks for inline code from a window, and reads nothing. No line is looked through twice for what it has not."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self.run = ""
        """The backticks that were looked at."""
        self._runs: dict[int, int] = {}
        """The last place of each size of run in the line that was looked through to its end."""
        self._end = -1

    @property
    def is_last_run(self) -> bool:
        """Whether no backticks follow those here in their line; known once `peek_length` found no code."""
        return all(place <= self._window.position for place in self._runs.values())

    @property
    def line(self) -> int:
        """How many characters the line still has, its break not counted; known once `peek_length` found no code."""
        return self._end - self._window.position

    def peek_length(self) -> Waits[int]:
        """Return the length of the code that the backticks here open, 0 where no equal run follows in the line."""
        window = self._window
        while True:
            run = _RUN.match(window.text, window.at)
            assert run is not None
            self.run, before = run[0], window.position - window.at
            known = run.end() < len(window.text) and window.position < self._end
            if known and self._runs.get(len(run[0]), -1) <= window.position:
                return 0
            runs: dict[int, int] = {}
            for stop in _RUN_OR_LINE.finditer(window.text, run.end()):
                if stop[0] == "\n" or len(stop[0]) == len(run[0]):
                    break
                runs[len(stop[0])] = before + stop.start()
            else:
                stop = None
            closed = stop is not None and stop[0] != "\n"
            settled = stop is not None and (not closed or stop.end() < len(window.text))
            if not settled and (yield from window.wait_for_more()):
                continue
            if stop is not None and closed:
                return stop.end() - window.at
            self._runs, self._end = runs, before + (stop.start() if stop else len(window.text))
            return 0


class Words:
    """Words between tags: each piece trimmed, a blank line between them; exact pieces stay as they are."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._held: list[str] = []
        self.fresh = True
        """Whether nothing but blanks came since a tag, or at all."""
        self._shown = 0

    def add(self, text: str) -> None:
        """Take in words; blanks at their end wait for what follows."""
        if self.fresh:
            text = text.lstrip()
        body = text.rstrip()
        if body:
            self._separate()
            self._out += (*self._held, body)
            self._held = []
        if len(body) < len(text):
            self._held.append(text[len(body) :])

    def add_exact(self, text: str) -> None:
        """Take in words that stay as they are."""
        self.end_piece()
        if text:
            self._separate()
            self._out.append(text)
            self.end_piece()

    def end_piece(self) -> None:
        """End the piece: a tag stood here."""
        self._held, self.fresh = [], True

    def take_new(self) -> str:
        """Return the words that came since the last time."""
        new = "".join(self._out[self._shown :])
        self._shown = len(self._out)
        return new

    def take_all(self) -> str:
        """Return all words and forget them: they turned out not to be meant for anybody."""
        text = self.text
        self._out, self._shown = [], 0
        self.end_piece()
        return text

    @property
    def text(self) -> str:
        """All words."""
        return "".join(self._out)

    def _separate(self) -> None:
        if self.fresh and self._out:
            self._out.append("\n\n")
        self.fresh = False


class Prose:
    """Reads words up to the next `<` that is neither in a fence nor in inline code."""

    def __init__(self, window: Window, words: Words, example: Callable[[str], None]) -> None:
        """`example` is given what stood in a fence."""
        self._window, self._words, self._example = window, words, example
        self._inline = InlineCode(window)
        self._looked = -1
        self.unclosed_fence = False

    def read_to_mark(self, *, answers: bool) -> Waits[Mark]:
        """Read up to a place where a tag may stand, or past the words that announce the answer."""
        window = self._window
        after_tag = window.position if self._words.fresh else -1
        while True:
            if (window.is_at_line_start or window.position == after_tag) and self._looked != window.position:
                self._looked = window.position
                if answers and (yield from self._read_answer_mark()):
                    return "answer"
                if window.is_at_line_start and (yield from self._read_fence()):
                    continue
            special = _SPECIAL.search(window.text, window.at)
            if special is None:
                self._words.add(window.take(len(window.text)))
                if not (yield from window.wait_for_more()):
                    return "end"
                continue
            self._words.add(window.take(special.start()))
            if special[0] == "<":
                return "tag"
            if special[0] == "\n":
                self._words.add(window.skip(1))
            else:
                yield from self._read_code()

    def _read_answer_mark(self) -> Waits[bool]:
        match = yield from self._window.peek(_ANSWER, _MAYBE_ANSWER)
        if match:
            self._words.end_piece()
            self._window.take(match.end())
        return match is not None

    def _read_fence(self) -> Waits[bool]:
        """Read a fence that opens here, up to the end of its closing line or of the text."""
        window = self._window
        fence = yield from window.peek(_FENCE, _MAYBE_FENCE)
        if fence is None or (fence[1][0] == "`" and "`" in fence[2]):
            return False
        self._words.add(window.take(fence.end() + 1))
        yield from self._read_fenced(fence[1])
        return True

    def _read_fenced(self, mark: str) -> Waits[None]:
        window = self._window
        while True:
            ends = _FENCE_END.finditer(window.text, window.at)
            end = next((end for end in ends if end[1][0] == mark[0] and len(end[1]) >= len(mark)), None)
            if end is not None and end.end() < len(window.text):
                self._read_example(end.end())
                return
            if end is None:
                self._read_example(window.text.rfind("\n", window.at) + 1)
            if not (yield from window.wait_for_more()):
                self.unclosed_fence = end is None
                self._read_example(len(window.text))
                return

    def _read_example(self, end: int) -> None:
        text = self._window.take(end)
        self._words.add(text)
        self._example(text)

    def _read_code(self) -> Waits[None]:
        """Read inline code, else the backticks alone; three and more that are the last of their line open a fence."""
        window, inline = self._window, self._inline
        if length := (yield from inline.peek_length()):
            self._words.add(window.skip(length))
            return
        run = inline.run
        if len(run) < 3 or not inline.is_last_run:
            self._words.add(window.skip(len(run)))
            return
        self._words.add(window.skip(inline.line + 1))
        yield from self._read_fenced(run)


def refuse_bare_markup(response: ModelResponse, known: AbstractSet[str] | None = None) -> ModelResponse:
    """Return a response that says nothing as one with a call that cannot be read, whose defect says what to do.

    `known` is as in `find_bare_markup`.
    """
    text = response.text.strip()
    if response.calls or not (name := find_bare_markup(text, known)):
        return response
    why = (
        f"`{text[:_SHOWN]}` alone is neither a call nor an answer; {_NAMED if '$result_of_step_' in text else _TAGGED}"
    )
    finish = "tool_calls" if response.finish_reason == "stop" else response.finish_reason
    return replace(response, text="", calls=(ToolCall.from_defect(name, text, why),), finish_reason=finish)


def find_bare_markup(text: str, known: AbstractSet[str] | None = None) -> str:
    """Return the first name in a text that is one tag with what it holds, or holds no word; "" for any other.

    Tags of HTML are as good as words, and so are those for an answer. Where a model does not write its calls in tags,
    `known` are the names of the tools: a tag that neither is nor names one is an answer, too.

    >>> find_bare_markup("<note>Rain.</note>"), find_bare_markup("<note>Rain.</note>", {"read_file"})
    ('note', '')
    """
    if (lone := find_lone_tag(text.strip(), known)) and re.search(rf"</{re.escape(lone)}\s*+>\s*+\Z", text):
        inside = text.strip()[len(lone) + 1 :]
        if known is None or is_tool_name(lone, known) or lone.lower() in _CALLS or has_tool_name(inside, known):
            return lone
    name, at = "", 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or (token["tag"] or "").lower() in MARKUP:
            return ""
        at, name = token.end(), name or token["tag"] or token["result"] or ""
    return name


def is_tool_name(name: str, known: AbstractSet[str]) -> bool:
    """Whether a name is that of an offered tool, in other letters or without its server's too, or of other agents'."""
    return is_offered_elsewhere(name, known) or is_foreign_name(name)


def has_tool_name(text: str, known: AbstractSet[str]) -> bool:
    """Whether a text names a tool: an offered one anywhere, one of other agents where a call has its name."""
    if not known.isdisjoint(_WORD.findall(text)):
        return True
    return any(is_foreign_name(called["quoted"] or called["tag"]) for called in _CALLED.finditer(text))


def find_lone_tag(text: str, known: AbstractSet[str] | None = None) -> str:
    """Return the name of the tag that a text begins with where nothing but blanks stands behind its end, else ""."""
    opening = _OPENING.match(text)
    if opening is None or opening["tag"].lower() in _WORDS:
        return ""
    if known is not None and opening["tag"].lower() == RESULT and not is_tool_name(opening["tag"], known):
        # An answer, whatever it names.
        return ""
    end = re.search(rf"</{re.escape(opening['tag'])}\s*+>", text)
    return "" if end is not None and text[end.end() :].strip() else opening["tag"]


def may_be_bare(text: str, known: AbstractSet[str] | None = None) -> bool:
    """Whether a text that goes on may still come to be one tag with what it holds, or to hold no word."""
    if find_lone_tag(text, known):
        return True
    at = 0
    while at < len(text):
        if (token := _TOKEN.match(text, at)) is None:
            return _BEGUN.fullmatch(text, at) is not None
        at = token.end()
    return True

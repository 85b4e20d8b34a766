"""What a model thought aloud before its answer, told apart from the answer as the text comes."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from foregate.schemas.late_pattern import compile_late

THOUGHTS = ("think", "thinking", "thought")
"""Tags in which models think, in every dialect."""
_TAGS = "|".join((*THOUGHTS, "reasoning", "seed:think"))
_CHANNEL_END = r"<\|end\|>|<\|return\|>|(?=<\|start\|>assistant|<\|channel\|>)"
_MARKS = (
    # `<think>...</think>` and kin
    (rf"<(?P<tag>{_TAGS})\s{{0,8}}>", r"</TAG\s{0,8}>"),
    # `[THINK]...[/THINK]`
    (r"\[THINK\]", r"\[/THINK\]"),
    # `◁think▷...◁/think▷`
    ("◁think▷", "◁/think▷"),
    # `<|START_THINKING|>...<|END_THINKING|>`
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    # `<|begin_of_thought|>...<|end_of_thought|>`
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    # `<|channel>thought\n...<channel|>`
    (r"<\|channel>thought\s", r"<channel\|>"),
    # `<|channel|>analysis<|message|>...<|end|>`, also where a template had written what begins it
    (
        r"(?:<\|start\|>assistant)?(?:<\|channel\|>)?analysis\s{0,4}<\|message\|>",
        _CHANNEL_END,
    ),
    # `<|channel|>final<|message|>...<|return|>` and kin are around an answer: nothing there is thought
    (
        r"(?:<\|start\|>assistant)?<\|channel\|>(?:final|commentary)\s{0,4}<\|message\|>|<\|START_RESPONSE\|>|<\|begin_of_solution\|>",
        "",
    ),
)
# "<think>", "[THINK]".
_FORMS = [(compile_late(rf"(?:{begin})", re.IGNORECASE), end) for begin, end in _MARKS]
_LONGEST = 64
"""Characters of the longest mark."""
_BEGUN = compile_late(r"<[|/a-z:_]{0,32}>?[a-z\s|<>]{0,64}|\[/?[a-z]{0,8}|◁/?[a-z]{0,8}", re.IGNORECASE)
"""What may become a mark that begins a thought: `<thi`, `<|chan`, `[TH`."""
_BARE = r"(?<=analysis)<\|message\|>"
_ALONE = compile_late(rf"</?(?:{_TAGS})\s{{0,8}}>|\[/?THINK\]|◁/?think▷|(?<=assistant)final|{_BARE}", re.IGNORECASE)
"""Marks further on: the end of a thought that a template had begun (`...</think>`), or a text about thoughts."""
_BEGUN_ALONE = compile_late(
    r"(?:<[/|]?[a-z:]{0,12}[\s|]{0,8}|\[/?[a-z]{0,5}|◁/?[a-z]{0,5}|(?<=assistant)fina?|(?<=assistant)fi?)\Z",
    re.IGNORECASE,
)
"""What may become one of them: `</thi`, `[/TH`, `fin`."""
_ENDS = ".!?\u2026\u3002\uff01\uff1f"
"""How sentences end, in Chinese and Japanese too."""
_LEFT = compile_late(r"(?:<\|(?:end|return|END_RESPONSE|end_of_solution)\|>\s{0,8}){1,4}\Z")
"""What is left behind an answer that was between two marks: `<|return|>`."""
# "\n\n" before a mark.
_BLANKS = compile_late(r"\s*+")
# "```python": within code a mark is part of the text.
_FENCE = compile_late(r"^[ ]{0,3}(?:```|~~~)", re.MULTILINE)


class Split(Struct):
    """What a piece of a text brought: thoughts, words, and whether all words until then were a thought."""

    thoughts: list[str] = []
    words: list[str] = []
    voids: bool = False

    @property
    def thought(self) -> str:
        """What was thought."""
        return "".join(self.thoughts)

    @property
    def said(self) -> str:
        """What was said."""
        return "".join(self.words)


class ThoughtSplitter:
    """Takes a text in pieces, and says of each what of it was thought and what was said.

    A thought that never ends takes all that follows. A text that speaks of such marks further on stays unchanged.
    """

    def __init__(self) -> None:
        self._text, self._at, self._last = "", 0, False
        self._blanks: list[str] = []
        self._end: re.Pattern[str] | None = None
        self._before: list[str] | None = []
        """The words so far, while they may turn out to be a thought; None once that is settled."""
        self._in_words = self._is_marked = self._has_thought = False

    def feed(self, text: str, *, last: bool = False) -> Split:
        """Take in the next piece; with `last` there is no further one."""
        found = Split()
        # What stands before a mark counts.
        kept = max(0, self._at - _LONGEST)
        self._text, self._at, self._last = self._text[kept:] + text, self._at - kept, last
        while self._take_words(found) if self._in_words else self._take_mark(found):
            pass
        return found

    def _take_mark(self, found: Split) -> bool:
        """Take a thought, or what begins one or an answer; return whether what follows can be told, too."""
        if self._end is not None:
            mark = self._end.search(self._text, self._at)
            size = len(self._text) - (0 if self._last else _LONGEST)
            found.thoughts.append(self._skip(mark.start() if mark is not None else size))
            if mark is not None:
                self._at, self._end = mark.end(), None
            return mark is not None
        blanks = _BLANKS.match(self._text, self._at)
        assert blanks is not None
        self._blanks.append(self._skip(blanks.end()))
        for begin, end in _FORMS:
            if (mark := begin.match(self._text, self._at)) is not None:
                self._at, self._before = mark.end(), None
                found.thoughts += ["\n"] if self._has_thought and end else []
                self._has_thought = self._has_thought or bool(end)
                self._end = _compile_end(end, mark.groupdict().get("tag") or "") if end else None
                self._is_marked = self._in_words = not end
                return True
        left = len(self._text) - self._at
        if not self._last and (not left or (left <= 2 * _LONGEST and _BEGUN.fullmatch(self._text, self._at))):
            return False
        self._in_words = True
        if self._before is not None:
            self._blanks.append(self._text[self._at :])
            self._text, self._at = "".join(self._blanks), 0
        return True

    def _take_words(self, found: Split) -> bool:
        """Take words; return whether they turned out to be a thought that another mark may follow."""
        size = len(self._text)
        if self._before is not None and (mark := _ALONE.search(self._text, self._at)) is not None:
            words = self._skip(mark.start())
            self._before.append(words)
            found.words.append(words)
            if not self._last and size < mark.end() + 2:
                return False
            said, self._before = "".join(self._before), None
            if is_end(mark[0], said, self._text[mark.end() : mark.end() + 2]):
                is_bare = said.startswith("analysis")
                said = said.removeprefix("analysis").removesuffix("assistant") if is_bare else said
                self._end = _compile_end(_CHANNEL_END, "") if mark[0].startswith("<|") else None
                found.thoughts, found.words, found.voids = [said], [], True
                self._has_thought = True
                self._at, self._in_words = mark.end(), False
                return True
        near = max(self._at, size - 2 * _LONGEST)
        if self._is_marked:
            tail = _LEFT.search(self._text, near) if self._last else None
            size = tail.start() if tail is not None else size if self._last else near
        elif self._before is not None and not self._last and (begun := _BEGUN_ALONE.search(self._text, near)):
            size = begun.start()
        words = self._skip(size)
        found.words.append(words)
        if self._before is not None:
            self._before.append(words)
        return False

    def _skip(self, to: int) -> str:
        at, self._at = self._at, max(self._at, to)
        return self._text[at : self._at]


@lru_cache(maxsize=32)
def _compile_end(end: str, tag: str) -> re.Pattern[str]:
    # "</think>" for the tag "think".
    return re.compile(end.replace("TAG", re.escape(tag)), re.IGNORECASE)


def is_end(mark: str, before: str, after: str) -> bool:
    """Whether a mark ends a thought that began before the text did; else the text speaks of it, or writes code.

    >>> is_end("</think>", "So it is four.", "\\n\\n"), is_end("</think>", "It ends with ", "\\n\\n")
    (True, False)
    """
    if mark.lower() == "final" or mark.startswith("<|"):
        return before.startswith("analysis") and (not mark.startswith("<|") or before == "analysis")
    line = before[before.rfind("\n") + 1 :]
    if "/" not in mark or line.count("`") % 2 or len(_FENCE.findall(before)) % 2:
        return False
    if not line.strip():
        return True
    if line[-1] in " \t":
        return line.rstrip()[-1] in _ENDS and not after.strip(" \t\r\n")
    return line[-1] not in "\"'`(" and after[:1] not in tuple(" ,.;:)\"'`")


def split_thoughts(text: str) -> tuple[str, str]:
    """Return the thoughts at the beginning of a text, and the rest.

    >>> split_thoughts("Four, then.</think>It is 4.")
    ('Four, then.', 'It is 4.')
    """
    found = ThoughtSplitter().feed(text, last=True)
    return found.thought.strip(), found.said


def cut_thoughts(text: str) -> str:
    """Return a text without what was thought aloud before it; a thought that never ends takes all that follows.

    >>> cut_thoughts('<think>{"draft": 1}</think>\\n{"answer": 2}')
    '{"answer": 2}'
    """
    return split_thoughts(text)[1]

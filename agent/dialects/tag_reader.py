"""Reads a response that carries its calls in tags, as it arrives."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from foregate.agent.dialects import prose
from foregate.agent.dialects.dialect import BLOCKS, GENERIC, MARKUP, RESERVED, RESULT, LookAlikes, ParsedResponse
from foregate.agent.dialects.tag_forms import CallCollector, TagForm
from foregate.agent.dialects.tag_parameters import BodyReader, UnclosedTag, UnreadableTag, describe_unclosed
from foregate.agent.dialects.window import CDATA, COMMENT, COMMENT_END, Tag, Waits, Window
from foregate.schemas import strict_json
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.model_response import BlockKind
from foregate.schemas.thoughts import THOUGHTS
from foregate.schemas.tool_call import ToolCall

_DEEPEST = 8
"""Blocks in blocks, at most."""
# "<execute_tools>", "</exec-tool>": models spell it in many ways.
_SIGNAL = compile_late(r"</?(?:ex[ce]{1,4}u?te?|exec|run)[ _-]?tools?\s*/?>", re.IGNORECASE)
_CUT_NAME = 3
"""Letters of a tag's name after which a text that ends within a line was cut in it."""
_FINAL = ("final_answer", "finalanswer", "final-answer")
_BEGUN = r"<([A-Za-z_][A-Za-z0-9_.:-]*+)\s[^<>]*+"
# "<read_file path=a.py>": an attribute without quotes; "<read_file pa".
_BROKEN_TAG, _MAYBE_BROKEN = compile_late(f"{_BEGUN}>"), compile_late(rf"{_BEGUN}\Z")
# "<réad_file": a name that only looks like a tool's.
_ODD_TAG = compile_late(r"<(/?)([^\s<>/=\"'`]{1,100})")


class Grammar:
    """The tags of a dialect for the tools of a request."""

    has_signals = False
    """Whether `<execute_tools />` and `Final Answer:` mean something."""
    has_services = False
    """Whether an unknown tag that holds tags is an unknown service."""
    tags: Collection[str] = ()
    """Every name of a tag that calls something or holds calls."""
    services: Collection[str] = ()
    """The tags in which the tags of tools stand."""

    def find_form(self, name: str, service: str) -> TagForm | None:
        """Return what a tag calls within a service, "" outside one; None where it calls nothing."""
        raise NotImplementedError


class TagReader:
    """A `Reader`: text is read once, calls are known as soon as their closing tag is."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._window, self._words, self._gathered = Window(), prose.Words(), CallCollector()
        self._bodies = BodyReader(self._window)
        self._prose = prose.Prose(self._window, self._words, self._read_example)
        self._containers: list[str] = []
        self._before: list[int] = []
        self._reasoning: list[str] = []
        self._notes: list[str] = []
        self._alike = LookAlikes((*grammar.tags, *RESERVED))
        self._cut = False
        self._running = self._read()
        next(self._running)

    @property
    def calls(self) -> Sequence[ToolCall]:
        return self._gathered.calls

    def feed(self, text: str) -> str:
        self._window.push(strict_json.scrub(text))
        next(self._running, None)
        return self._words.take_new()

    def close(self) -> ParsedResponse:
        self._window.ended = True
        next(self._running, None)
        return ParsedResponse(
            self._words.text,
            tuple(self._gathered.calls),
            "\n".join(part for text in self._reasoning if (part := text.strip())),
            self._gathered.order(),
            tuple(self._gathered.deferred),
            tuple(dict.fromkeys(self._notes)),
        )

    def _read(self) -> Waits[None]:
        if not (yield from self._window.wait_for_more()):
            return
        while not self._cut:
            answers = self._grammar.has_signals and not self._containers
            mark = yield from self._prose.read_to_mark(answers=answers)
            if mark == "tag":
                yield from self._read_at_tag()
            elif mark == "answer":
                yield from self._read_answer()
            else:
                break
        if not self._cut:
            self._note_unclosed()
        if self._prose.unclosed_fence:
            self._notes.append("a code fence was not closed; what stands after it was taken as an example")

    def _read_at_tag(self) -> Waits[None]:
        """Read what begins with `<`: a tag, CDATA, a comment, or a character like any other."""
        if (yield from self._window.is_next(CDATA)):
            text, closed = yield from self._window.read_sections()
            self._words.add_exact(text)
            if not closed:
                self._notes.append("CDATA was not closed; what stands after it was taken as words")
            return
        if (yield from self._window.is_next(COMMENT)):
            yield from self._read_inert(COMMENT_END)
            return
        tag = yield from self._window.peek_tag()
        signal = _SIGNAL.match(self._window.text, self._window.at) if self._grammar.has_signals else None
        if signal is not None and self._find_form(signal[0].strip("</ >")) is None:
            # The calls are to be made now; what stands after it is cut. Before any call it means nothing.
            self._window.skip(len(signal[0]))
            self._words.end_piece()
            if self._gathered.calls:
                yield from self._cut_at_mark(f"`{signal[0]}`", "the calls come first")
        elif tag is None:
            yield from self._read_no_tag()
        elif not (yield from self._read_known_tag(tag)):
            self._words.add(self._window.skip(len(tag.text)))

    def _read_known_tag(self, tag: Tag) -> Waits[bool]:
        """Read what a tag begins; return whether it means anything."""
        name = tag.name.lower()
        if name in THOUGHTS:
            yield from self._read_thought(tag)
        elif name == RESULT and tag.kind != "close":
            self._skip(tag)
            yield from self._cut_at_mark(f"`{tag.text[:40]}`", prose.NO_RESULTS)
        elif self._grammar.has_signals and name in _FINAL and tag.kind == "open":
            self._skip(tag)
            yield from self._read_answer(tag.name)
        elif tag.kind == "close":
            return self._close_container(tag)
        elif name in BLOCKS:
            yield from self._open_block(tag, BLOCKS[name])
        elif name == GENERIC:
            yield from self._read_generic_call(tag)
        else:
            return (yield from self._read_call_or_service(tag))
        return True

    def _read_call_or_service(self, tag: Tag) -> Waits[bool]:
        """Read a call or the opening tag of a service; return whether the tag is either."""
        form = self._find_form(tag.name)
        # Another product's tag may stand in any text about it; as a call it begins a line.
        if form is not None and form.foreign and not (self._containers or self._window.opens_line):
            form = None
        holds_tools = tag.name in self._grammar.services and (form is None or form.foreign)
        form = None if holds_tools else form
        if form is None and not holds_tools:
            held = yield from self._detect_call_content(tag)
            if not held:
                return False
            holds_tools = held == "<" and self._grammar.has_services
        if holds_tools:
            self._open_container(tag)
        else:
            yield from self._read_call(tag, form or TagForm(tag.name, tag.name))
        return True

    def _find_form(self, name: str) -> TagForm | None:
        service = next((one for one in reversed(self._containers) if one not in BLOCKS), "")
        return self._grammar.find_form(name, service)

    def _detect_call_content(self, tag: Tag) -> Waits[str]:
        """Return how an unknown tag looks like a call, by what it holds: `<` or `{`; "" where it does not.

        It must begin a line or stand among calls; a tag of HTML, or one that holds words, is words.
        """
        among = bool(self._containers)
        if not among and (not self._window.opens_line or tag.name.lower() in MARKUP):
            return ""
        if tag.kind == "whole":
            return "{" if among or (tag.attributes and "_" in tag.name) else ""
        skip = yield from self._window.peek_past_blanks(len(tag.text))
        first = yield from self._window.peek_character(skip)
        if first == "<":
            inner = yield from self._window.peek_tag(skip)
            return "<" if inner is not None and inner.kind != "close" else "{" if among else ""
        return "{" if among or first == "{" else ""

    def _read_call(self, tag: Tag, form: TagForm) -> Waits[None]:
        self._window.record = []
        self._skip(tag)
        try:
            self._gathered.add(form.build_calls((yield from self._bodies.read_call(tag, form.shape))))
        except UnreadableTag as defect:
            self._refuse(form.tool, self._window.end_record(), str(defect))
        except UnclosedTag as cut:
            raw, self._cut = self._window.end_record(), True
            self._refuse(form.tool, raw, describe_unclosed(tag.name, str(cut), raw))
        self._window.record = None

    def _refuse(self, name: str, raw: str, why: str) -> None:
        self._gathered.add([ToolCall.from_defect(name, raw, why)])

    def _read_generic_call(self, tag: Tag) -> Waits[None]:
        """Read a call that names its tool in an attribute, for names that cannot be tags."""
        given = dict(tag.attributes)
        self._skip(tag)
        if tag.kind == "open":
            text, closed = yield from self._window.read_inside(tag.name)
            self._cut = not closed
            if text.strip() or not closed:
                given = {}
        name, raw = given.get("name"), given.get("arguments", "{}")
        if name is None or given.keys() - {"name", "arguments", "defect"}:
            why = f'write it as `<{GENERIC} name="..." arguments="..."/>`, the arguments being JSON'
            self._refuse(name or GENERIC, raw, why)
        elif defect := given.get("defect"):
            self._refuse(name, raw, defect)
        else:
            self._gathered.add([ToolCall.parse(name, raw)])

    def _open_block(self, tag: Tag, kind: BlockKind) -> Waits[None]:
        """Open a block; one that is nested too deep is read to its end and refused as a whole."""
        if tag.kind == "whole":
            self._skip(tag)
        elif sum(name in BLOCKS for name in self._containers) < _DEEPEST:
            self._open_container(tag)
            self._gathered.begin(kind)
        else:
            self._skip(tag)
            self._cut = not (yield from self._window.read_inside(tag.name))[1]
            why = f"blocks nest deeper than {_DEEPEST}"
            self._refuse(kind, tag.text, f"{why}, so nothing in this one was done; flatten them")
            self._notes.append(f"{why}; the innermost were refused")

    def _open_container(self, tag: Tag) -> None:
        self._skip(tag)
        if tag.kind == "whole":
            self._note_empty_service(tag.name)
        else:
            self._containers.append(tag.name.lower() if tag.name.lower() in BLOCKS else tag.name)
            self._before.append(len(self._gathered.calls))

    def _note_empty_service(self, service: str) -> None:
        why = f"`<{service}>` names no tool; put the tag of one of its tools into it"
        self._refuse(service, f"<{service}>", why)

    def _close_container(self, tag: Tag) -> bool:
        """Close a block or a service, with those that stand open in it; return whether there was one of that name."""
        name = tag.name.lower() if tag.name.lower() in BLOCKS else tag.name
        if name not in self._containers:
            if name in self._grammar.tags or name in BLOCKS:
                self._notes.append(f"`{tag.text[:60]}` closes nothing; it stayed text")
            return False
        while self._containers:
            inner, empty = self._containers.pop(), self._before.pop() == len(self._gathered.calls)
            if inner in BLOCKS:
                self._gathered.end()
            elif empty:
                self._note_empty_service(inner)
            if inner in BLOCKS and empty:
                self._notes.append(f"`<{inner}>` held no call")
            if inner == name:
                break
            self._notes.append(f"`<{inner[:60]}>` was not closed before `</{name[:60]}>`")
        self._skip(tag)
        return True

    def _read_thought(self, tag: Tag) -> Waits[None]:
        """Read a thought. A closing tag alone says that everything so far was one: what it called is dropped."""
        self._skip(tag)
        if tag.kind == "open":
            text, closed = yield from self._window.read_inside(tag.name)
            self._reasoning.append(text)
            if not closed:
                self._notes.append(prose.OPEN_THOUGHT.format(tag.name))
        elif tag.kind == "close" and not self._reasoning and not self._containers:
            if self._gathered.calls:
                self._notes.append(prose.ONLY_THOUGHT.format(tag.text))
            self._reasoning.append(self._words.take_all())
            self._gathered = CallCollector()

    def _read_answer(self, tag: str = "") -> Waits[None]:
        """Read the answer, all words, to the end; one that stands after calls is premature and cut."""
        if self._gathered.calls:
            yield from self._cut_at_mark("`Final Answer:`", "its calls had not been made yet")
            return
        text = yield from self._window.read_rest()
        self._words.end_piece()
        self._words.add(text.rstrip().removesuffix(f"</{tag}>") if tag else text)

    def _cut_at_mark(self, mark: str, why: str) -> Waits[None]:
        """End the response at a mark: drop what follows it, and say so where that is more than blanks."""
        self._note_unclosed()
        self._cut = True
        self._notes += prose.note_cut(mark, (yield from self._window.read_rest()), why)

    def _note_unclosed(self) -> None:
        """Say of a block or service that is still open that it was not closed."""
        for name in self._containers[:1]:
            why = f"the response ended before `<{name}>` was closed"
            self._refuse(name, f"<{name}>", f"{why}; close it after the last of its calls, by `</{name}>`")

    def _read_no_tag(self) -> Waits[None]:
        """Read a `<` that begins no tag; one that was meant as a call, or looks like a tag, is not passed over."""
        window = self._window
        broken = yield from window.peek(_BROKEN_TAG, _MAYBE_BROKEN, to_end=False)
        if broken is not None and (form := self._find_form(broken[1])) is not None:
            yield from self._refuse_malformed(broken, form)
            return
        if (name := window.find_cut_tag()) and self._is_cut_call(name):
            self._cut, form = True, self._find_form(name)
            why = f"the response ended in the tag `<{name}`; send it again, whole"
            self._refuse(form.tool if form else name, window.take(len(window.text)), why)
            return
        odd = yield from window.peek(_ODD_TAG)
        if odd is None or odd[2].isascii() or not (close := self._alike.find_like(odd[2])):
            self._words.add(window.skip(1))
            return
        self._notes.append(f"`{odd[2][:60]}` is not `{close}`: it has other letters that look alike; it stayed text")
        if odd[1]:
            self._words.add(window.skip(len(odd[0])))
        else:
            yield from self._read_inert(f"</{odd[2]}>")

    def _is_cut_call(self, name: str) -> bool:
        """Whether a tag that the text ends in calls something or holds calls, or may if it was cut in its name."""
        window, marks = self._window, (*BLOCKS, GENERIC)
        if self._find_form(name) is not None or name in marks or name in self._grammar.services:
            return True
        if len(window.text) - window.at > len(name) + 1 or (len(name) < _CUT_NAME and not window.opens_line):
            return False
        return any(tag.startswith(name) for tag in (*self._grammar.tags, *marks))

    def _refuse_malformed(self, tag: re.Match[str], form: TagForm) -> Waits[None]:
        """Refuse a call whose opening tag cannot be read, and pass over what it holds."""
        self._window.record = []
        self._window.skip(len(tag[0]))
        if not tag[0].endswith("/>"):
            self._cut = not (yield from self._window.read_inside(tag[1]))[1]
        why = f'the tag `<{tag[1]}>` cannot be read: attributes are written as name="value"'
        self._refuse(form.tool, self._window.end_record(), why)

    def _read_inert(self, end: str) -> Waits[None]:
        """Read words up to a literal and past it; what looks like a tag in them is none."""
        text, closed = yield from self._window.read_until(end)
        self._words.add(text + end * closed)
        if not closed:
            self._notes.append(prose.NO_END.format(end[:60]))

    def _skip(self, tag: Tag) -> None:
        """Read the tag itself; the words before and after it are two pieces."""
        self._window.skip(len(tag.text))
        self._words.end_piece()

    def _read_example(self, text: str) -> None:
        if self._alike.has_tag(text):
            self._notes.append("tags in a code fence are examples; they were not carried out")

"""Calls as JSON in a text: one object or a list, bare, in a code fence, or the first balanced object among words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

from msgspec import Struct

from foregate.agent.dialects.dialect import Parsed, Reader
from foregate.agent.dialects.placeholders import steps_in
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.message import Message
from foregate.schemas.order import Block, BlockKind
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec

NAMES = ("tool", "tool_name", "name")
Known = Set[str]
"""The names of the tools there are: with one of them an object without arguments is a call, too."""
ARGUMENTS = ("args", "arguments", "parameters")
LISTS = ("calls", "tool_calls", "actions")
_ASIDE = ("reasoning", "id", "type", "description")
_FENCE = "```"
_BEGIN = re.compile(r"""\{\s*"|\[\s*\{|^[ ]{0,3}```|<think>""", re.MULTILINE)
_MARK = re.compile(r'["{}\[\]]')
_STRING_END = re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL)
_CALLISH = re.compile(r'"(?:tool|tool_name|name|tool_calls|calls|actions|function)"\s*:\s*(?:"([^"\\]{1,64})")?')
_DEEPEST = 8
_BLOCKS: tuple[BlockKind, ...] = ("parallel", "sequential")
_FENCE_END = re.compile(r"^[ ]{0,3}```[ \t]*$", re.MULTILINE)
_LANGUAGES = ("", "json", "tool_call", "tool_calls")
_VALUE = re.compile(r"[\s,]*[{\[]")
_LOOK = 100_000
"""Characters of a text that is no JSON in which the name of its tool is looked for."""
_AGAIN = "only the first JSON of a response is read as calls; send this one again, or all of them in one list"
_FORM = 'a call is an object with `tool` and `args`, as in {"tool": "read_file", "args": {"path": "README.md"}}'
_CUT = "the JSON of this call ends before it is complete; send it again, whole"
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


class Calls(Struct):
    """Calls in written order as they are gathered from JSON, with what was thought beside them."""

    calls: list[ToolCall]
    reasons: list[str]
    deferred: list[int]

    def add(self, call: ToolCall, reason: Json, *, steps: bool) -> int:
        """Take in a call and return its place; within `steps` its arguments may name results."""
        if isinstance(reason, str) and reason.strip():
            self.reasons.append(reason.strip())
        place = len(self.calls)
        self.calls.append(call)
        if steps and call.arguments is not None and steps_in(dict(call.arguments)):
            self.deferred.append(place)
        return place


class JsonReader:
    """Reads one response. Pieces are only gathered: JSON says what it is at its end."""

    def __init__(self, known: Known = frozenset()) -> None:
        self._known = known
        self._pieces: list[str] = []
        self._held = False
        self._tail = ""

    @property
    def calls(self) -> Sequence[ToolCall]:
        """The calls of a response are known at its end."""
        return ()

    def feed(self, text: str) -> str:
        """Take in a piece; words are shown up to the first mark that may begin a call."""
        self._pieces.append(text)
        if self._held:
            return ""
        ready = self._tail + text
        place = next((n for n, char in enumerate(ready) if char in "{[`<"), len(ready))
        self._held = place < len(ready)
        return ready[:place]

    def close(self) -> Parsed:
        """Return what the response said."""
        return read("".join(self._pieces), self._known)


class JsonDialect:
    """The dialect for models that only write text."""

    name = "json"
    stop: tuple[str, ...] = ()

    def section(self, tools: Sequence[ToolSpec]) -> str:
        """Return what teaches the dialect, with each tool as a line."""
        return _SECTION.format(tools="\n".join(_taught(spec) for spec in tools))

    def reader(self, tools: Sequence[ToolSpec]) -> Reader:
        """Return a reader; an unknown tool is a call like any other, which the judge refuses."""
        return JsonReader(frozenset(spec.name for spec in tools))

    def said(self, message: Message) -> str:
        """Return words and calls; the calls stand first where the words would hide them."""
        if not message.calls:
            return message.text
        block = f"{_FENCE}json\n{written(message)}\n{_FENCE}"
        if not message.text.strip():
            return block
        after = f"{message.text.strip()}\n\n{block}"
        known = frozenset(call.name for call in message.calls)
        return after if read(after, known).text == message.text.strip() else f"{block}\n\n{message.text.strip()}"

    def answered(self, answers: Sequence[tuple[str, str]]) -> str:
        """Return the answers as one JSON object; what tools gave stands in it as strings."""
        told: Json = [{"tool": name, "answer": strict_json.parse(text)} for name, text in answers]
        return strict_json.canonical({"results": told}).decode()


class Piece(Struct, frozen=True):
    """A piece of a text: `kind` is `words`, `thought`, or `json` for what may hold calls; `inner` is without marks."""

    kind: str
    whole: str
    inner: str = ""


def read(text: str, known: Known = frozenset()) -> Parsed:
    """Return what a text says: the first JSON that holds calls is taken out of it, the rest are words."""
    words: list[str] = []
    thoughts: list[str] = []
    found = Calls([], [], [])
    order: Block | None = None
    more = 0
    for piece in pieces(text):
        if piece.kind == "thought":
            thoughts.append(piece.inner.strip())
            continue
        first, before = not found.calls, len(found.calls)
        gathered = found if first else Calls([], [], [])
        block = gather(piece.inner, gathered, known) if piece.kind == "json" else None
        if len(gathered.calls) == (before if first else 0):
            words.append(piece.whole)
        elif first:
            order = block
        elif not more:
            late = [ToolCall.broken(call.name, call.raw, call.defect or _AGAIN) for call in gathered.calls]
            found.calls += late
            order = order and Block("sequential", (order, *range(before, len(found.calls))))
            more = 1
        else:
            more += 1
    notes = (f"{more - 1} more pieces of JSON with calls were left out",) if more > 1 else ()
    reasoning = "\n".join([*thoughts, *found.reasons]).strip()
    return Parsed("".join(words).strip(), tuple(found.calls), reasoning, order, tuple(found.deferred), notes)


def pieces(text: str) -> Iterator[Piece]:
    """Yield the text in pieces, in order and without gaps; each character is looked at once."""
    place = 0
    while (begin := _BEGIN.search(text, place)) is not None:
        if begin.start() > place:
            yield Piece("words", text[place : begin.start()])
        piece = _piece(text, begin)
        yield piece
        place = begin.start() + len(piece.whole)
    if place < len(text):
        yield Piece("words", text[place:])


def _piece(text: str, begin: re.Match[str]) -> Piece:
    """Return the piece that begins with a mark."""
    start, mark = begin.start(), begin[0]
    if mark == "<think>":
        end = text.find("</think>", begin.end())
        inner = text[begin.end() : end] if end >= 0 else text[begin.end() :]
        return Piece("thought", text[start : end + len("</think>")] if end >= 0 else text[start:], inner)
    if not mark.endswith(_FENCE):
        end = balanced(text, start)
        whole = text[start:end] if end >= 0 else text[start:]
        return Piece("json", whole, whole)
    line_end = text.find("\n", begin.end())
    language = text[begin.end() : line_end if line_end >= 0 else len(text)].strip().lower()
    closing = _FENCE_END.search(text, line_end) if line_end >= 0 else None
    whole = text[start : closing.end()] if closing is not None else text[start:]
    inner = text[line_end + 1 : closing.start() if closing is not None else len(text)] if line_end >= 0 else ""
    return Piece("json" if language in _LANGUAGES else "words", whole, inner)


def balanced(text: str, start: int) -> int:
    """Return where the object or list that begins at `start` ends, -1 where it does not."""
    depth, place = 0, start
    while (mark := _MARK.search(text, place)) is not None:
        place = mark.end()
        if mark[0] == '"':
            string = _STRING_END.match(text, place)
            if string is None:
                return -1
            place = string.end()
        else:
            depth += 1 if mark[0] in "{[" else -1
            if depth == 0:
                return place
    return -1


def gather(text: str, into: Calls, known: Known) -> Block | None:
    """Gather the calls a piece of JSON holds, and return their order; text that only begins as a call is broken."""
    try:
        values = _values(text)
    except InvalidJson as error:
        if callish := _CALLISH.search(text[:_LOOK]):
            cut = balanced(text, len(text) - len(text.lstrip())) < 0
            why = _CUT if cut else f"this call is no valid JSON ({error}); send it again"
            into.add(ToolCall.broken(callish[1] or "unreadable", text.strip(), why), None, steps=False)
        return None
    items = [item for value in values for item in listed(value)]
    return _ordered(items, into) if any(_holds_calls(item, known) for item in items) else None


def _values(text: str) -> list[Json]:
    """Return the JSON values of a piece, one or one behind another; raise InvalidJson where it holds anything else."""
    bare = text.strip()
    if not bare:
        return []
    end = balanced(bare, 0) if bare[0] in "{[" else len(bare)
    values = [strict_json.parse(bare[:end] if end >= 0 else bare)]
    while end < len(bare) and (begin := _VALUE.match(bare, end)) is not None:
        start, end = begin.end() - 1, balanced(bare, begin.end() - 1)
        if end < 0:
            break
        values.append(strict_json.parse(bare[start:end]))
    if end < 0 or bare[end:].strip(" \t\r\n,"):
        raise InvalidJson("more stands behind it; send calls in one list")
    return values


def listed(value: Json) -> list[Json]:
    """Return the entries of one call, of a list of calls, or of an object that holds such a list."""
    if isinstance(value, dict):
        inner = next((value[key] for key in LISTS if isinstance(value.get(key), list)), None)
        return inner if isinstance(inner, list) else [value]
    return value if isinstance(value, list) else [value]


def _holds_calls(item: Json, known: Known) -> bool:
    """Whether an entry is meant as a call: it names a tool and arguments, or a tool there is."""
    if not isinstance(item, dict):
        return False
    if kind := _block_kind(item):
        return any(_holds_calls(inner, known) for inner in item[kind])
    entry = _inner(item)
    names = [entry[key] for key in NAMES if isinstance(entry.get(key), str)]
    return bool(names) and (names[0] in known or any(key in entry for key in ARGUMENTS))


def _block_kind(item: dict[str, Json]) -> BlockKind | None:
    for kind in _BLOCKS:
        if isinstance(item.get(kind), list):
            return kind
    return None


def _ordered(items: Sequence[Json], into: Calls) -> Block | None:
    """Gather the calls of a list; return their order where a block of it says one."""
    if not any(isinstance(item, dict) and _block_kind(item) for item in items):
        for item in items:
            _add(item, into, steps=False)
        return None
    blocks = tuple(_nested(item, into, 0, steps=False) for item in items)
    only = blocks[0]
    return only if len(blocks) == 1 and isinstance(only, Block) else Block("sequential", blocks)


def _nested(item: Json, into: Calls, depth: int, *, steps: bool) -> int | Block:
    """Gather the calls of an item and return its place, or its block."""
    kind = _block_kind(item) if isinstance(item, dict) else None
    if kind is None or depth > _DEEPEST:
        return _add(item, into, steps=steps)
    steps = steps or kind == "sequential"
    return Block(kind, tuple(_nested(inner, into, depth + 1, steps=steps) for inner in item[kind]))


def _add(item: Json, into: Calls, *, steps: bool) -> int:
    """Gather one call; what is none among calls is answered, not passed over."""
    reason = item.get("reasoning") if isinstance(item, dict) else None
    return into.add(call_of(item), reason, steps=steps)


def call_of(item: Json) -> ToolCall:
    """Return the call an entry describes; one that describes none is a broken call that says how to write it."""
    raw = strict_json.canonical(item).decode()
    if not isinstance(item, dict):
        return ToolCall.broken("unreadable", raw, _FORM)
    entry = _inner(item)
    name = next((entry[key] for key in NAMES if isinstance(entry.get(key), str)), None)
    if name is None:
        return ToolCall.broken("unreadable", raw, _FORM)
    key = next((key for key in ARGUMENTS if key in entry), "")
    other = sorted(entry.keys() - {*NAMES, *_ASIDE, key})
    if other:
        return ToolCall.broken(name, raw, f"`{other[0][:64]}` is no part of a call; put arguments under `args`")
    arguments = entry.get(key) if key else {}
    if isinstance(arguments, str):
        return ToolCall.parse(name, arguments)
    if not isinstance(arguments, dict):
        return ToolCall.broken(name, raw, "`args` is no object; put the arguments into one by their names")
    return ToolCall.of(name, arguments)


def _inner(item: dict[str, Json]) -> dict[str, Json]:
    function = item.get("function")
    return function if isinstance(function, dict) else item


def written(message: Message) -> str:
    """Return the calls of a message as JSON: one object, or a list, or blocks."""
    entries = [_entry(call) for call in message.calls]
    if message.order is not None:
        return _text(_laid_out(message.order, entries))
    return _text(entries[0] if len(entries) == 1 else entries)


def _entry(call: ToolCall) -> Json:
    return {"tool": call.name, "args": dict(call.arguments) if call.arguments is not None else call.raw}


def _laid_out(block: Block, entries: Sequence[Json]) -> Json:
    items = [entries[item] if isinstance(item, int) else _laid_out(item, entries) for item in block.items]
    return {block.kind: items}


def _text(value: Json) -> str:
    return strict_json.canonical(value).decode()


def _taught(spec: ToolSpec) -> str:
    return f"- {_text(spec.name)}: {' '.join(spec.description.split())} {_text(dict(spec.parameters))}"

"""The calls that a piece of JSON holds: one object, a list, an object with such a list, or blocks that say an order."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from msgspec import Struct

from foregate.evidence.state.dataflow import find_steps
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.model_response import Block, BlockKind
from foregate.schemas.strict_json import Json, get_list
from foregate.schemas.tool_call import ToolCall

_MARK = re.compile(r'["{}\[\]]')
_STRING = re.compile(r'(?:[^"\\]++|\\.)*+(")?', re.DOTALL)


class Brackets:
    """The brackets that are open at a place, which begins at an opening one; what stands in strings does not count."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False

    def scan(self, text: str, place: int) -> tuple[int, bool]:
        """Return up to where `text` was read from `place`, and whether the outermost bracket was closed there.

        Where it was not, everything is read but a backslash at the end, which waits for what it escapes.
        """
        while place < len(text):
            if self._in_string:
                string = _STRING.match(text, place)
                assert string is not None
                place = string.end()
                if string[1] is None:
                    break
                self._in_string = False
            mark = _MARK.search(text, place)
            if mark is None:
                return len(text), False
            place = mark.end()
            if mark[0] == '"':
                self._in_string = True
            else:
                self._depth += 1 if mark[0] in "{[" else -1
                if self._depth == 0:
                    return place, True
        return place, False


def find_json_end(text: str, start: int) -> int:
    """Return where the object or list that begins at `start` ends, -1 where it does not."""
    end, closed = Brackets().scan(text, start)
    return end if closed else -1


NAMES = ("tool", "tool_name", "name")
Known = Set[str]
"""The names of the tools there are: with one of them an object without arguments is a call, too."""
ARGUMENTS = ("args", "arguments", "parameters")
LISTS = ("calls", "tool_calls", "actions")
_ASIDE = ("reasoning", "id", "type", "description")
_CALLISH = re.compile(r'"(?:tool|tool_name|name|tool_calls|calls|actions|function)"\s*:\s*(?:"([^"\\]{1,64})")?')
_DEEPEST = 8
_BLOCKS: tuple[BlockKind, ...] = ("parallel", "sequential")
_VALUE = re.compile(r"[\s,]*[{\[]")
_LOOK = 100_000
"""Characters of a text that is no JSON in which the name of its tool is looked for."""
_FORM = 'a call is an object with `tool` and `args`, as in {"tool": "read_file", "args": {"path": "README.md"}}'
_CUT = "the JSON of this call ends before it is complete; send it again, whole"


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
        if steps and call.arguments is not None and find_steps(dict(call.arguments)):
            self.deferred.append(place)
        return place


def gather_calls(text: str, into: Calls, known: Known) -> Block | None:
    """Gather the calls a piece of JSON holds, and return their order; text that only begins as a call is broken."""
    try:
        values = _parse_values(text)
    except InvalidJson as error:
        if callish := _CALLISH.search(text[:_LOOK]):
            cut = find_json_end(text, len(text) - len(text.lstrip())) < 0
            why = _CUT if cut else f"this call is no valid JSON ({error}); send it again"
            into.add(ToolCall.from_defect(callish[1] or "unreadable", text.strip(), why), None, steps=False)
        return None
    items = [item for value in values for item in list_entries(value)]
    return _gather_list(items, into) if any(_holds_calls(item, known) for item in items) else None


def _parse_values(text: str) -> list[Json]:
    """Return the JSON values of a piece, one or one behind another; raise InvalidJson where it holds anything else."""
    bare = text.strip()
    if not bare:
        return []
    end = find_json_end(bare, 0) if bare[0] in "{[" else len(bare)
    values = [strict_json.parse(bare[:end] if end >= 0 else bare)]
    while end < len(bare) and (begin := _VALUE.match(bare, end)) is not None:
        start, end = begin.end() - 1, find_json_end(bare, begin.end() - 1)
        if end < 0:
            break
        values.append(strict_json.parse(bare[start:end]))
    if end < 0 or bare[end:].strip(" \t\r\n,"):
        raise InvalidJson("more stands behind it; send calls in one list")
    return values


def list_entries(value: Json) -> list[Json]:
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


def _gather_list(items: Sequence[Json], into: Calls) -> Block | None:
    """Gather the calls of a list; return their order where a block of it says one."""
    if not any(isinstance(item, dict) and _block_kind(item) for item in items):
        for item in items:
            _add(item, into, steps=False)
        return None
    blocks = tuple(_gather_nested(item, into, 0, steps=False) for item in items)
    only = blocks[0]
    return only if len(blocks) == 1 and isinstance(only, Block) else Block("sequential", blocks)


def _gather_nested(item: Json, into: Calls, depth: int, *, steps: bool) -> int | Block:
    """Gather the calls of an item and return its place, or its block."""
    kind = _block_kind(item) if isinstance(item, dict) else None
    if kind is None or depth > _DEEPEST:
        return _add(item, into, steps=steps)
    steps = steps or kind == "sequential"
    return Block(kind, tuple(_gather_nested(inner, into, depth + 1, steps=steps) for inner in get_list(item, kind)))


def _add(item: Json, into: Calls, *, steps: bool) -> int:
    """Gather one call; what is none among calls is answered, not passed over."""
    reason = item.get("reasoning") if isinstance(item, dict) else None
    return into.add(parse_call(item), reason, steps=steps)


def parse_call(item: Json) -> ToolCall:
    """Return the call an entry describes; one that describes none is a broken call that says how to write it."""
    raw = strict_json.canonical(item).decode()
    if not isinstance(item, dict):
        return ToolCall.from_defect("unreadable", raw, _FORM)
    entry = _inner(item)
    name = next((named for key in NAMES if isinstance(named := entry.get(key), str)), None)
    if name is None:
        return ToolCall.from_defect("unreadable", raw, _FORM)
    key = next((key for key in ARGUMENTS if key in entry), "")
    other = sorted(entry.keys() - {*NAMES, *_ASIDE, key})
    if other:
        return ToolCall.from_defect(name, raw, f"`{other[0][:64]}` is no part of a call; put arguments under `args`")
    arguments = entry.get(key) if key else {}
    if isinstance(arguments, str):
        return ToolCall.parse(name, arguments)
    if not isinstance(arguments, dict):
        return ToolCall.from_defect(name, raw, "`args` is no object; put the arguments into one by their names")
    return ToolCall.of(name, arguments)


def _inner(item: dict[str, Json]) -> dict[str, Json]:
    function = item.get("function")
    return function if isinstance(function, dict) else item

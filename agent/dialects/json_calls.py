"""The calls that a piece of JSON holds: one object, a list, an object with such a list, or blocks that say an order."""

from __future__ import annotations

import re
from collections.abc import Set

from msgspec import Struct

from foregate.agent.dialects.dialect import BLOCKS, build_order
from foregate.evidence.state.dataflow import find_steps
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.model_response import Block, BlockKind
from foregate.schemas.strict_json import Json, get_list
from foregate.schemas.tool_call import ToolCall

# '"', "{": all that says where broken JSON nests.
_MARK = compile_late(r'["{}\[\]]')
# 'a.py"': the rest of a string; without the group its end was cut off.
_STRING = compile_late(r'(?:[^"\\]++|\\.)*+(")?', re.DOTALL)
_NAMES = ("tool", "tool_name", "name")
Known = Set[str]
"""The names of the tools there are: with one of them an object without arguments is a call, too."""
_ARGUMENTS = ("args", "arguments", "parameters")
_LISTS = ("calls", "tool_calls", "actions")
_ASIDE = ("reasoning", "id", "type", "description")
# '"tool": "read_file"'.
_CALLISH = compile_late(r'"(?:tool|tool_name|name|tool_calls|calls|actions|function)"\s*:\s*(?:"([^"\\]{1,64})")?')
_DEEPEST = 8
# ', {' before the next of several values.
_VALUE = compile_late(r"[\s,]*[{\[]")
_LOOK = 100_000
"""Characters of a text that is no JSON in which the name of its tool is looked for."""
_FORM = 'a call is an object with `tool` and `args`, as in {"tool": "read_file", "args": {"path": "README.md"}}'
_CUT = "the JSON of this call ends before it is complete; send it again, whole"


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


class Calls(Struct):
    """Calls in written order as they are gathered from JSON, with what was thought beside them and their order."""

    calls: list[ToolCall] = []
    reasons: list[str] = []
    deferred: list[int] = []
    order: Block | None = None

    def gather(self, item: Json, depth: int = 0, *, steps: bool = False) -> int | Block:
        """Gather an item, also one that is no call; return its place or block. In `steps` calls may name results."""
        kind = _get_block_kind(item) if depth <= _DEEPEST else None
        if kind is not None:
            steps = steps or kind == "sequential"
            return Block(kind, tuple(self.gather(inner, depth + 1, steps=steps) for inner in get_list(item, kind)))
        reason = item.get("reasoning") if isinstance(item, dict) else None
        if isinstance(reason, str) and reason.strip():
            self.reasons.append(reason.strip())
        call = _parse_call(item)
        self.calls.append(call)
        if steps and call.arguments is not None and find_steps(dict(call.arguments)):
            self.deferred.append(len(self.calls) - 1)
        return len(self.calls) - 1


def gather_calls(text: str, known: Known) -> Calls:
    """Return the calls a piece of JSON holds; text that only begins as a call is a broken one."""
    found = Calls()
    try:
        values = _parse_values(text)
    except InvalidJson as error:
        if callish := _CALLISH.search(text[:_LOOK]):
            cut = find_json_end(text, len(text) - len(text.lstrip())) < 0
            why = _CUT if cut else f"this call is no valid JSON ({error}); send it again"
            found.calls.append(ToolCall.from_defect(callish[1] or "unreadable", text.strip(), why))
        return found
    items = [item for value in values for item in _list_entries(value)]
    if any(_holds_calls(item, known) for item in items):
        found.order = build_order(tuple(map(found.gather, items)))
    return found


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


def _list_entries(value: Json) -> list[Json]:
    """Return the entries of one call, of a list of calls, or of an object that holds such a list."""
    if isinstance(value, dict):
        value = next((inner for key in _LISTS if isinstance(inner := value.get(key), list)), value)
    return value if isinstance(value, list) else [value]


def _holds_calls(item: Json, known: Known) -> bool:
    """Whether an entry is meant as a call: it names a tool and arguments, or a tool there is."""
    if kind := _get_block_kind(item):
        return any(_holds_calls(inner, known) for inner in get_list(item, kind))
    entry = _get_inner(item)
    names = [name for key in _NAMES if isinstance(name := entry.get(key), str)]
    return bool(names) and (names[0] in known or any(key in entry for key in _ARGUMENTS))


def _get_block_kind(item: Json) -> BlockKind | None:
    return next((kind for kind in BLOCKS.values() if isinstance(item, dict) and isinstance(item.get(kind), list)), None)


def _parse_call(item: Json) -> ToolCall:
    """Return the call an entry describes; one that describes none is a broken call that says how to write it."""
    raw, entry = strict_json.canonical(item).decode(), _get_inner(item)
    name = next((named for key in _NAMES if isinstance(named := entry.get(key), str)), None)
    if name is None:
        return ToolCall.from_defect("unreadable", raw, _FORM)
    key = next((key for key in _ARGUMENTS if key in entry), "")
    if other := sorted(entry.keys() - {*_NAMES, *_ASIDE, key}):
        return ToolCall.from_defect(name, raw, f"`{other[0][:64]}` is no part of a call; put arguments under `args`")
    match entry.get(key) if key else {}:
        case str(arguments):
            return ToolCall.parse(name, arguments)
        case dict(arguments):
            return ToolCall.of(name, arguments)
    return ToolCall.from_defect(name, raw, "`args` is no object; put the arguments into one by their names")


def _get_inner(item: Json) -> dict[str, Json]:
    """Return the object that describes a call, an empty one for none."""
    if not isinstance(item, dict):
        return {}
    function = item.get("function")
    return function if isinstance(function, dict) else item

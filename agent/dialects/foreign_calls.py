"""Calls under the names of other agents: taken for calls of our tools where the meaning is exact, else left as sent.

What a call was taken for is judged like any other call, and its `sent` keeps what the model sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.dialects.dialect import Names
from foregate.schemas.model_response import Follower, ModelResponse
from foregate.schemas.strict_json import Json, get_object
from foregate.schemas.tool_call import SentCall, ToolCall
from foregate.schemas.tool_spec import (
    ANY,
    LINE,
    PARAMETERS,
    Catalogue,
    ForeignTool,
    ToolSpec,
    find_foreign_tool,
    is_line,
    is_offered_elsewhere,
    spell_name,
)

NAME = "apply_patch"
_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
_ANYWHERE = 10**9
"""The line of a hunk that stands below a line it names: its lines must then be the only ones of their kind."""
_NO_NAMES = Names()
_PATCH = ("input", "patch")
"""What the one argument of `apply_patch` is called."""


class PatchCall(Struct, frozen=True):
    """The tool of ours that does what a patch says, and its arguments."""

    tool: str
    arguments: Mapping[str, Json]


def read_patch(text: str) -> PatchCall | None:
    """Return the call a patch means, None where no single one means exactly that.

    One file is added, deleted or updated. A patch for several files or that moves one is none, and one with a hunk that
    only adds, whose place nobody but the patching program knows.

    >>> read_patch("*** Begin Patch\\n*** Delete File: a.txt\\n*** End Patch")
    PatchCall(tool='delete_path', arguments={'path': 'a.txt'})
    """
    lines = text.strip().splitlines()
    if len(lines) < 3 or (lines[0].strip(), lines[-1].strip()) != (_BEGIN, _END):
        return None
    head, body = lines[1], lines[2:-1]
    path = head.partition(": ")[2].strip()
    if not path:
        return None
    if head.startswith(_ADD) and all(line.startswith("+") for line in body):
        return PatchCall("write_file", {"path": path, "content": "".join(f"{line[1:]}\n" for line in body)})
    if head.startswith(_DELETE) and not body:
        return PatchCall("delete_path", {"path": path})
    if head.startswith(_UPDATE) and body and (diff := "".join(build_diff(body))) and _is_whole(diff):
        return PatchCall("edit_file", {"path": path, "diff": diff})
    return None


def build_diff(body: Sequence[str]) -> Iterator[str]:
    """Yield the hunks of an update as a unified diff; what cannot be said in one is yielded as `***`."""
    hunks: list[tuple[int, list[str]]] = []
    for line in body:
        if line.startswith("@@"):
            hunks.append((_ANYWHERE if line.removeprefix("@@").strip() else 1, []))
        elif line == "" or line[0] in " +-":
            hunks = hunks or [(1, [])]
            hunks[-1][1].append(line or " ")
        else:
            yield "***"
            return
    for start, lines in hunks:
        old, new = (sum(line[0] != sign for line in lines) for sign in "+-")
        if not old:
            yield "***"
            return
        yield f"@@ -{start},{old} +{start},{new} @@\n"
        yield from (f"{line}\n" for line in lines)


def _is_whole(diff: str) -> bool:
    return not diff.endswith("***")


class TakenCall(Struct, frozen=True):
    """What a call was taken for; `notes` are a sentence for each parameter that was renamed, added or left out."""

    tool: str
    arguments: Mapping[str, Json]
    notes: tuple[str, ...] = ()


def take_response(response: ModelResponse, tools: Sequence[ToolSpec], names: Names = _NO_NAMES) -> ModelResponse:
    """Return a response with each call of a foreign name taken for one of `tools`."""
    catalogue = {spec.name: spec for spec in tools}
    calls = tuple(take_call(call, catalogue, names) for call in response.calls)
    same = all(one is other for one, other in zip(calls, response.calls, strict=True))
    return response if same else replace(response, calls=calls)


def take_call(call: ToolCall, catalogue: Catalogue, names: Names = _NO_NAMES) -> ToolCall:
    """Return what a call is taken for, the call itself where it is nothing else."""
    if call.sent is not None and call.sent.name != call.name:
        return call
    taken = take_arguments(call.name, call.arguments or {}, catalogue, names)
    if taken is None or (taken.tool == call.name and not taken.notes):
        return call
    if call.arguments is None:
        ours = ToolCall.from_defect(taken.tool, call.raw, call.defect, id=call.id, wire_id=call.wire_id)
    else:
        ours = replace(ToolCall.of(taken.tool, taken.arguments, id=call.id), wire_id=call.wire_id)
    return replace(ours, sent=call.sent or SentCall(call.name, call.raw))


def take_arguments(
    name: str, arguments: Mapping[str, Json], catalogue: Catalogue | None, names: Names = _NO_NAMES
) -> TakenCall | None:
    """Return what a tool's name and arguments mean in our words, None where that is not exact or not known.

    A name that `catalogue` has, or that one of its tools bears in other letters or behind its server's, is no foreign
    one; and only a tool of Foregate's own is meant by one. None for `catalogue` stands for all of our own.
    """
    patch = next((value for key, value in arguments.items() if key in _PATCH), None) if len(arguments) == 1 else None
    if spell_name(name) == NAME and isinstance(patch, str) and (meant := read_patch(patch)) is not None:
        offered = catalogue is None or not (name in catalogue or is_offered_elsewhere(name, catalogue))
        spec = catalogue.get(meant.tool) if catalogue is not None else None
        if offered and (catalogue is None or (spec is not None and spec.provenance == "builtin")):
            return TakenCall(meant.tool, meant.arguments, ("a patch of one file is one call",))
        return None
    told = names.tags.get(name) or names.tools.get(name, "")
    if is_line(name, arguments) and (catalogue is None or _is_own(name, catalogue)):
        foreign, exact = LINE, True
    elif name in (PARAMETERS if catalogue is None else catalogue):
        foreign, exact = ForeignTool(name), False
    elif told:
        foreign, exact = ForeignTool(told), False
    else:
        found = find_foreign_tool(name, arguments)
        if found is None or (catalogue is not None and is_offered_elsewhere(name, catalogue)):
            return None
        foreign, exact = found, True
    spec = catalogue.get(foreign.tool) if catalogue is not None else None
    if catalogue is not None and spec is None:
        return None
    if spec is not None and spec.provenance != "builtin":
        return None if exact else _rename(foreign, names.parameters.get(foreign.tool, {}), arguments, spec, exact=False)
    theirs = {**PARAMETERS.get(foreign.tool, {}), **names.parameters.get(foreign.tool, {}), **foreign.parameters}
    return _rename(foreign, theirs, arguments, spec, exact=exact)


def _is_own(name: str, catalogue: Catalogue) -> bool:
    spec = catalogue.get(name)
    return spec is not None and spec.provenance == "builtin"


def _rename(
    foreign: ForeignTool,
    theirs: Mapping[str, str],
    arguments: Mapping[str, Json],
    spec: ToolSpec | None,
    *,
    exact: bool,
) -> TakenCall | None:
    """Return the arguments under our names; where `exact`, None when one of them has no exact meaning.

    Else a name stays where the tool has such a parameter, or where ours is given as well: what is meant is then not
    for us to say.
    """
    known = get_object(spec.parameters, "properties").keys() if spec is not None else None
    found: dict[str, Json] = {}
    notes: list[str] = []
    for name, value in arguments.items():
        ours = theirs.get(name, name)
        own = name in foreign.parameters or known is None or name not in known
        if exact and is_idle(name, value, foreign, own):
            notes.append(f"`{name}` says nothing that `{foreign.tool}` would need")
            continue
        bare = ours.removesuffix("[]")
        if ours != name and own and bare not in arguments and bare not in found:
            notes.append(f"the parameter `{name}` of `{foreign.tool}` is `{bare}`")
            found[bare] = [value] if ours.endswith("[]") else value
        elif exact and (name in foreign.differs or (known is not None and name not in known) or name in theirs):
            return None
        else:
            found[name] = value
    for name, value in foreign.adds.items():
        if name not in found:
            found[name] = value
            notes.append(f"it means `{foreign.tool}` with `{name}` {'true' if value is True else 'empty'}")
    return TakenCall(foreign.tool, found, tuple(notes))


def is_idle(name: str, value: Json, foreign: ForeignTool, own: bool) -> bool:
    """Whether a parameter may be left out: what means nothing, or null for one that is the other tool's `own`."""
    if name not in foreign.idle:
        return own and value is None
    idle = foreign.idle[name]
    return value is None or idle == ANY or (type(value) is type(idle) and value == idle)


class ForeignFollower(Follower):
    """Hands on words as they are, and calls as what they are taken for."""

    def __init__(self, tools: Sequence[ToolSpec], names: Names, to: Follower) -> None:
        super().__init__(to)
        self._catalogue, self._names = {spec.name: spec for spec in tools}, names

    def call(self, call: ToolCall) -> None:
        """A call is complete."""
        super().call(take_call(call, self._catalogue, self._names))

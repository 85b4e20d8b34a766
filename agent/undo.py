"""Taking back what a call changed, from what the log and the before-images say, checked before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from foregate.agent.tools.tool import inverse_of
from foregate.agent.undo_step import Place, Step, changes_back, records_back, steps_of
from foregate.evidence.ledger import changes_of
from foregate.schemas import codec
from foregate.schemas.errors import ForegateError
from foregate.schemas.event import Draft, Event
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_result import Change

if TYPE_CHECKING:
    from foregate.agent.session import Session

_NAMED = 20
"""Changes a message names at most, the newest."""


class UndoReport(Struct, frozen=True):
    """What was taken back, or why nothing was. `steps` says in words what was done, or with `preview` would be."""

    done: bool
    call: str = ""
    tool: str = ""
    resources: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    reason: str = ""
    preview: bool = False


class Undoable(Struct, frozen=True):
    """A finished call that changed something and was not undone yet."""

    call: str
    tool: str
    before: Sequence[Json]
    changes: tuple[Change, ...]


async def undo(session: Session, call_id: str | None = None, preview: bool = False) -> UndoReport:
    """Take back the newest change of the session that was not taken back yet, or that of the call named.

    Nothing is touched unless everything is still as the call left it. A `checkpoint` announces it; what was restored is
    compared by hash and recorded as `effect_undone`, also when an earlier process was ended in between. With `preview`
    only says what would happen. A change without a way back, a world that has moved on and an unknown call are a report
    with a reason; raises LogError when the log fails.
    """
    if session.state.in_flight:
        return UndoReport(False, reason="a tool is still running; wait for it or cancel it", preview=preview)
    events = await session.log.read(session.lease.session)
    found = chosen(events, call_id)
    if isinstance(found, str):
        return UndoReport(False, call_id or "", reason=found, preview=preview)
    names = tuple(change.resource.id for change in found.changes)
    try:
        place = Place(session.workspace, session.policy, session.blobs, inverse_of(session.own_tools, found.tool))
        steps = steps_of(found.changes, found.before, place)
        words = tuple(step.words for step in steps)
        back_already = begun(events, found.call) and taken_back(steps)
        for step in () if back_already else steps:
            step.check()
        if preview:
            return UndoReport(True, found.call, found.tool, names, words, preview=True)
        if not back_already:
            await session.record(Draft("checkpoint", "foregate", {"undo": found.call, "steps": list(words)}))
            await session.log.settle(session.lease)
            for step in steps:
                step.take_back()
            for step in steps:
                step.verify()
    except ForegateError as error:
        return UndoReport(False, found.call, found.tool, names, reason=str(error), preview=preview)
    await session.record(undone(found, steps))
    await session.log.settle(session.lease)
    return UndoReport(True, found.call, found.tool, names, words)


def chosen(events: Sequence[Event], call_id: str | None) -> Undoable | str:
    """Return the change to take back, or the reason there is none."""
    started: dict[str, Mapping[str, Json]] = {}
    finished: dict[str, Undoable] = {}
    gone: set[str] = set()
    lost: set[str] = set()
    for event in events:
        call = event.body.get("call", "")
        if event.kind == "tool_started":
            started[call] = event.body
        elif event.kind == "tool_finished" and event.body.get("changes"):
            before = started.get(call, {}).get("before", ())
            finished.pop(call, None)
            finished[call] = Undoable(call, event.body["tool"], before, changes_of(event.body["changes"]))
        elif event.kind == "effect_undone":
            gone.add(call)
        elif event.kind == "outcome_unknown":
            lost.add(call)
    left = [change for call, change in finished.items() if call not in gone]
    if call_id is None:
        return left[-1] if left else "nothing that was changed in this session can be undone"
    if call_id in gone:
        return f"`{call_id}` has been undone already"
    if call_id in finished:
        return finished[call_id]
    if call_id in lost:
        return f"nobody knows whether `{call_id}` took effect; look, then change things back by hand"
    if call_id in started:
        return f"`{call_id}` changed nothing that can be undone"
    named = ", ".join(f"{change.call} ({change.tool})" for change in left[-_NAMED:])
    return f"there is no call `{call_id}` in this session; what can be undone: {named or 'nothing'}"


def begun(events: Sequence[Event], call: str) -> bool:
    """Whether a process began to take the call back and did not come to say that it had."""
    return any(event.kind == "checkpoint" and event.body.get("undo") == call for event in events)


def taken_back(steps: Sequence[Step]) -> bool:
    """Whether everything is as it was before the call already."""
    try:
        for step in steps:
            step.verify()
    except ForegateError:
        return False
    return True


def undone(found: Undoable, steps: Sequence[Step]) -> Draft:
    """Return the event of a change that was taken back."""
    return Draft(
        "effect_undone",
        "foregate",
        {
            "call": found.call,
            "tool": found.tool,
            "resources": [change.resource.id for change in found.changes],
            "changes": [codec.dump(change) for change in changes_back(found.changes)],
            "evidence": [codec.dump(record) for record in records_back(found.changes)],
            "steps": [step.words for step in steps],
        },
    )

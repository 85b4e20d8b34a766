"""What an earlier process left under way, and its outcome: one way to find out, at resume, when asked, in plans."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from foregate.agent.loop.applying import go_on_or_back
from foregate.agent.loop.executor import draft_finish
from foregate.agent.loop.left_locks import remove_left_locks
from foregate.agent.loop.machine_runner import build_result
from foregate.agent.loop.probe import SAID, probe_call
from foregate.agent.loop.snapshots import Snapshots
from foregate.agent.loop.stored_changes import name_parted
from foregate.agent.session.session import Session
from foregate.agent.workspace.cancelled_work import run_to_end
from foregate.agent.workspace.confinement import hold_turn
from foregate.agent.workspace.in_place import put_back_left
from foregate.agent.workspace.work_sandbox import discard_sandbox
from foregate.evidence.state.conversation import CAME
from foregate.evidence.state.plan import NOT_DONE
from foregate.schemas.errors import LogError, SyncError, UsageError, WorkspaceError
from foregate.schemas.event import Actor, Draft, Event, ModelResponded
from foregate.schemas.event_body import (
    CatalogChanged,
    EffectUndone,
    KnownOutcome,
    OutcomeResolved,
    OutcomeUnknown,
    SandboxEnded,
    SessionStarted,
    TaskEnded,
    ToolFinished,
    ToolStarted,
)
from foregate.schemas.sandbox import SandboxedChanges
from foregate.schemas.tool_call import ToolCall, ToolResult
from foregate.schemas.tool_spec import ToolSpec

PROCESS_ENDED = "the process ended while this was running"
"""Why the outcome is unknown: the process that ran the call is gone."""
_CUT_OFF = ToolResult(False, PROCESS_ENDED, error="process_ended")


class ReconciledCall(NamedTuple):
    """The outcome of a call, and what is recorded of it."""

    call: str
    outcome: KnownOutcome


async def resume(session: Session) -> None:
    """Note what differs from the log that is resumed, and close what an earlier process left under way.

    What only observed is closed; of a call of the response in hand that only observed, running it again is what closes
    it. What may have had an effect is looked at: it has finished, or its outcome is unknown.
    """
    state = session.state
    cut_off = [one.call for one in state.in_flight.values() if one.side_effect != "pure"]
    if cut_off and state.task is None:
        raise LogError(f"`{min(cut_off)}` runs in no task; `foregate audit verify` tells what was changed in the log")
    differs = session.draft_policy()
    changed = session.catalogue_event
    if state.catalogue_hash != changed.catalogue_hash:
        differs.append(Draft(changed, "foregate"))
    if state.task is not None:
        await session.record(*differs)
    else:
        # Where nothing is open, looking at the session is not to write to it.
        session.log.prepare(*differs)
    await _put_back_left(session)
    left = [one for one in state.in_flight.values() if one.side_effect != "pure" or not state.is_asked(one.call)]
    events = await session.log.read() if left else ()
    for started in left:
        pure = started.side_effect == "pure"
        if pure and _is_outlived(started, events):
            continue
        unlocked = "" if pure or started.elsewhere else await _unlock(session, started, events)
        result = _CUT_OFF if pure else await _probe(session, started, events)
        if result is not None:
            said = f"{result.content} ({unlocked})" if unlocked else result.content
            await session.record(draft_finish(started, replace(result, content=said), 0, "foregate"))
        else:
            why = "; ".join(filter(None, (PROCESS_ENDED, unlocked)))
            lost = OutcomeUnknown(call=started.call, tool=started.tool, target=started.target, reason=why)
            await session.record(Draft(lost, "foregate"))
    await reconcile_calls(session, ask=False)
    await session.log.settle()


async def _unlock(session: Session, started: ToolStarted, events: Sequence[Event]) -> str:
    """Remove what a call of an earlier process still has locked in a repository; return what is said of that."""
    seq = _find_start(started, events)
    at = next(event.time for event in events if event.seq == seq)
    return await remove_left_locks(session, started, at) if is_over(session, seq) else ""


async def _put_back_left(session: Session) -> None:
    """Take back what commands changed in the workspace itself when their process ended: they count as never run."""
    for started in [one for one in session.state.in_flight.values() if one.snapshot]:
        try:
            await put_back_left(session.workspace, session.policy, started.snapshot)
        except (SyncError, WorkspaceError) as error:
            why = f"{PROCESS_ENDED}; {error}"
            lost = OutcomeUnknown(call=started.call, tool=started.tool, target=started.target, reason=why)
            await session.record(Draft(lost, "foregate"))


async def _take_back(session: Session, started: ToolStarted) -> ToolResult | None:
    """Take back what a command still has in the workspace itself; None where that was tried, or cannot be done."""
    with suppress(SyncError, WorkspaceError):
        if await put_back_left(session.workspace, session.policy, started.snapshot):
            return ToolResult(False, SAID[NOT_DONE], error=NOT_DONE)
    return None


async def reconcile_calls(session: Session, *, ask: bool = True) -> list[ReconciledCall]:
    """Look for the outcome of each call where it is unknown, and record it where looking is certain; return those.

    With `ask` False no runtime is asked about the calls it ran.
    """
    parked = dict(session.state.parked)
    events = await session.log.read_joined() if parked else ()
    started = {event.body.call: event.body for event in events if isinstance(event.body, ToolStarted)}
    found = []
    for call, lost in parked.items():
        outcome: KnownOutcome | None = None
        result: ToolResult | None = None
        if started[call].elsewhere:
            came = await session.tools.reconcile(call, started[call].permit.digest) if ask else None
            if came is not None:
                outcome, result = "done" if came.done else "not_done", came.result
        elif (result := await _probe(session, started[call], events)) is not None:
            outcome = "done" if result.ok else "not_done" if result.error == NOT_DONE else None
        if outcome is not None:
            await _record_resolution(session, lost, outcome, "runner", result if outcome == "done" else None)
            found.append(ReconciledCall(call, outcome))
    return found


async def reconcile_remote_calls(session: Session) -> None:
    """Ask a runtime for the outcome of calls where it is unknown, if it answers now."""
    if any(spec.is_elsewhere for spec in session.catalogue.values()):
        await reconcile_calls(session)


async def _probe(session: Session, started: ToolStarted, events: Sequence[Event]) -> ToolResult | None:
    """Return how a call of this place ended, as far as looking tells for certain: see `probe_call`."""
    if started.elsewhere:
        return None
    if started.snapshot:
        return await _take_back(session, started)
    if started.applies is not None:
        return await _finish_applying(session, started, events)
    seq = _find_start(started, events)
    call, spec = _find_call(events, started.call), _find_spec(events[:seq], started.tool)
    if call is None or spec is None or spec.provenance != "builtin" or _is_overtaken(started, events[seq:]):
        return None
    place = Snapshots(session.workspace, session.policy, session.blobs, session.tools.inverse(started.tool))
    try:
        result = await asyncio.to_thread(probe_call, place, call, started.before)
        # What is seen may not be on disk yet, and is told as done.
        await asyncio.to_thread(session.workspace.sync)
    except SyncError:
        return None
    if result is None or result.ok or is_over(session, seq):
        return result
    return None


async def _finish_applying(session: Session, started: ToolStarted, events: Sequence[Event]) -> ToolResult | None:
    """Apply the rest of what a sandbox changed where a process ended in the middle, or bring all of it back."""
    ended = next((event.body for event in events if event.seq == started.applies), None)
    if not isinstance(ended, SandboxEnded) or not is_over(session, _find_start(started, events)):
        return None
    place, upper = Snapshots(session.workspace, session.policy, session.blobs), Path(ended.upper, "upper")
    there = upper if upper.is_dir() else None
    try:
        async with hold_turn(session.workspace):
            applied = await run_to_end(go_on_or_back, place, started.images, there)
    except (SyncError, WorkspaceError):
        return None
    await run_to_end(discard_sandbox, SandboxedChanges(upper=ended.upper))
    return build_result(ended, applied, name_parted(place.blobs, started.images) if applied.ok else "")


def _find_start(started: ToolStarted, events: Sequence[Event]) -> int:
    """Return the number of the event that says a call was started, the newest of several."""
    return max(event.seq for event in events if event.body == started)


def _is_outlived(started: ToolStarted, events: Sequence[Event]) -> bool:
    """Whether a response or the end of the task came since, which no call that only observes outlasts."""
    later = (event.body for event in events[_find_start(started, events) :])
    return any(
        isinstance(body, TaskEnded) or (isinstance(body, ModelResponded) and not body.continues) for body in later
    )


def is_over(session: Session, seq: int) -> bool:
    """Whether nothing of the process that recorded the event `seq` is at work any more: the one place that says so.

    An earlier process is gone once its session could be claimed, and with it what it ran.
    """
    return seq <= session.log.began_after


def _find_call(events: Sequence[Event], call: str) -> ToolCall | None:
    """Return a call as its response asked for it."""
    responses = (event.body.response for event in reversed(events) if isinstance(event.body, ModelResponded))
    return next((one for response in responses for one in response.calls if one.id == call), None)


def _find_spec(events: Sequence[Event], tool: str) -> ToolSpec | None:
    """Return a tool as it was offered last: another of that name may have come since."""
    offers = (event.body for event in reversed(events) if isinstance(event.body, (SessionStarted, CatalogChanged)))
    return next((spec for spec in next(offers).catalogue if spec.name == tool), None)


def _is_overtaken(started: ToolStarted, later: Sequence[Event]) -> bool:
    """Whether another call, or an undo, has been at the same things since, so that what is there says nothing."""
    mine, others = {image.id for image in started.before}, set[str]()
    for body in (event.body for event in later):
        if isinstance(body, ToolStarted) and body.call != started.call:
            others |= {image.id for image in body.before}
        elif isinstance(body, EffectUndone):
            others |= {*body.resources}
    return not mine.isdisjoint(others)


async def record_outcome(session: Session, call: str, outcome: KnownOutcome) -> None:
    """Record the outcome that a person names of a call; raise UsageError for one whose outcome is no question."""
    lost = session.state.parked.get(call)
    if lost is None:
        named = ", ".join(f"{one} ({other.tool})" for one, other in session.state.parked.items()) or "none"
        raise UsageError(f"`{call}` is no call with an unknown outcome; there is: {named}")
    await _record_resolution(session, lost, outcome, "person")
    await session.log.settle()


async def _record_resolution(
    session: Session, lost: OutcomeUnknown, outcome: KnownOutcome, actor: Actor, result: ToolResult | None = None
) -> None:
    body = OutcomeResolved(call=lost.call, tool=lost.tool, target=lost.target, outcome=outcome)
    if result is not None:
        body = replace(body, changes=result.changes, evidence=result.evidence)
    await session.record(Draft(body, actor))


def list_open_calls(session: Session) -> dict[str, str]:
    """Return the calls whose outcome is unknown, and what each was."""
    return {call: f"{lost.tool} {lost.target}".strip() for call, lost in session.state.parked.items()}


async def resolve_outcomes(session: Session, call: str, said: KnownOutcome | None) -> list[ReconciledCall]:
    """Look what can be found out, then take a person's word on a call, the only one where `call` is "".

    Returns both, with what was found out since the session was taken up.

    Raises UsageError for a call whose outcome is no question, and for word that what was seen speaks against.
    """
    await reconcile_calls(session)
    await session.log.settle()
    found = [one for event in await session.log.read(after=session.log.began_after) for one in _list_found(event)]
    if said is None:
        return found
    unclear = list_open_calls(session)
    wanted = call or (next(iter(unclear)) if len(unclear) == 1 else found[0].call if len(found) == 1 else "")
    seen = next((one for one in found if one.call == wanted), None)
    if seen is None:
        await record_outcome(session, wanted, said)
        return [*found, ReconciledCall(wanted, said)]
    if seen.outcome != said:
        raise UsageError(f"`{wanted}` {CAME[seen.outcome]}: its file shows it; look again")
    return found


def _list_found(event: Event) -> list[ReconciledCall]:
    """Return the call, if any, whose outcome an event says that nobody but Foregate found out."""
    match event.body:
        case OutcomeResolved(call=call, outcome=outcome) if event.actor == "runner":
            return [ReconciledCall(call, outcome)]
        case ToolFinished(call=call, ok=ok, error=error) if event.actor == "foregate" and (ok or error == NOT_DONE):
            return [ReconciledCall(call, "done" if ok else "not_done")]
        case _:
            return []

"""Finding out what came of a call whose outcome is unknown: by looking where that is certain, else from a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from foregate.agent.effects.snapshots import Snapshots
from foregate.agent.session.session import PROCESS_ENDED
from foregate.agent.tools.builtin.files import edit_file, write_file
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.evidence.state.conversation import CAME
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, UsageError, WorkspaceError
from foregate.schemas.event import Actor, Draft, Event, ModelResponded
from foregate.schemas.event_body import KnownOutcome, OutcomeResolved, OutcomeUnknown, ToolStarted
from foregate.schemas.tool_call import ToolCall, ToolResult
from foregate.schemas.tool_spec import Effect, ResourceKind

if TYPE_CHECKING:
    from foregate.agent.session.session import Session

_MAKERS = {"edit_file": edit_file, "write_file": write_file}
"""The tools whose change follows from the file as it was and the arguments alone."""


_DONE: Mapping[bool, KnownOutcome] = {True: "done", False: "not_done"}


class ReconciledCall(NamedTuple):
    """What came of a call, and what is recorded of it."""

    call: str
    outcome: KnownOutcome


def compute_intended_hashes(session: Session, started: ToolStarted, call: ToolCall) -> dict[str, str]:
    """Return the hash of what a call would have made of its one file, by path, "" for nothing there.

    It is worked out on the file's before-image, so that no call has to say it beforehand. Empty where that is not
    certain.
    """
    kept, spec = started.before, session.catalogue.get(call.name)
    if len(kept) != 1 or kept[0].kind is not ResourceKind.FILE or kept[0].type not in ("", "file"):
        return {}
    image = kept[0]
    if started.effect is Effect.DELETE:
        return {image.id: ""} if call.name == "delete_path" and image.type == "file" else {}
    make = _MAKERS.get(call.name)
    if make is None or spec is None or spec.provenance != "builtin" or call.arguments is None:
        return {}
    try:
        files = {image.id: session.blobs.get(image.image)} if image.image else {}
        tool = make(MemoryWorkspace(files), session.policy)
        changes = tool.preview(call.arguments) if tool.preview is not None else ()
    except (ForegateError, KeyError, TypeError, AttributeError, ValueError):
        return {}
    return {change.path: strict_json.sha256(change.after) for change in changes if change.path == image.id}


async def reconcile_calls(session: Session) -> list[ReconciledCall]:
    """Look what came of each call with an unknown outcome, and record it where looking is certain; return those.

    A file that is as the call would have left it was changed by it. One that is as it was before was not, where the
    process that ran the call is gone: nobody is left who might still write.
    """
    parked = dict(session.state.parked)
    if not parked:
        return []
    events = await session.log.read()
    started = {event.body.call: event.body for event in events if isinstance(event.body, ToolStarted)}
    found = []
    for call, lost in parked.items():
        begun, result, outcome = started[call], None, None
        if begun.elsewhere:
            came = await session.tools.reconcile(call, begun.permit.digest)
            if came is not None:
                outcome, result = _DONE[came.done], came.result if came.done else None
        else:
            after = compute_intended_hashes(session, begun, find_call(events, call))
            outcome = find_outcome(session, begun, after, ended=lost.reason == PROCESS_ENDED)
            if outcome == "done":
                snapshots = Snapshots(session.workspace, session.policy, session.blobs)
                result = snapshots.add_missing_changes(ToolResult(True, ""), begun.before)
        if outcome is not None:
            await _record_resolution(session, lost, outcome, "runner", result)
            found.append(ReconciledCall(call, outcome))
    return found


async def reconcile_remote_calls(session: Session) -> None:
    """Ask a runtime what came of calls whose outcome is unknown, where it answers now."""
    if session.state.parked and any(spec.is_elsewhere for spec in session.catalogue.values()):
        await reconcile_calls(session)


def find_call(events: Sequence[Event], call: str) -> ToolCall:
    """Return a call as its response asked for it."""
    responses = (event.body.response for event in reversed(events) if isinstance(event.body, ModelResponded))
    return next(one for response in responses for one in response.calls if one.id == call)


def find_outcome(
    session: Session, started: ToolStarted, after: Mapping[str, str], *, ended: bool
) -> KnownOutcome | None:
    """Return what looking at the files of a call shows, None where it shows nothing for certain.

    `after` is what the call was to leave, by path; `ended` says that nobody is left who might still write.
    """
    before = {image.id: image.image for image in started.before}
    if not after or set(before) != set(after):
        return None
    try:
        now = {path: session.workspace.look(path, max_hash=session.policy.files.max_hash) for path in after}
    except WorkspaceError:
        return None
    if any(look.kind not in ("", "file") or (look.kind and not look.hash) for look in now.values()):
        return None
    hashes = {path: look.hash for path, look in now.items()}
    return "done" if hashes == after else "not_done" if ended and hashes == before else None


async def record_outcome(session: Session, call: str, outcome: KnownOutcome) -> None:
    """Record what a person says came of a call; raise UsageError for one whose outcome is no question."""
    lost = session.state.parked.get(call)
    if lost is None:
        named = ", ".join(f"{one} ({other.tool})" for one, other in session.state.parked.items()) or "none"
        raise UsageError(f"`{call}` is no call with an unknown outcome; there is: {named}")
    await _record_resolution(session, lost, outcome, "person")
    await session.log.settle()


async def _record_resolution(
    session: Session, lost: OutcomeUnknown, outcome: KnownOutcome, actor: Actor, result: ToolResult | None = None
) -> None:
    """Record that the outcome of a call is known now; `result` is None where nothing more is known."""
    body = OutcomeResolved(call=lost.call, tool=lost.tool, target=lost.target, outcome=outcome)
    if result is not None:
        body = replace(body, changes=result.changes, evidence=result.evidence)
    await session.record(Draft(body, actor))


def list_open_calls(session: Session) -> dict[str, str]:
    """Return the calls whose outcome nobody knows, and what each was."""
    return {call: f"{lost.tool} {lost.target}".strip() for call, lost in session.state.parked.items()}


async def resolve_outcomes(session: Session, call: str, said: KnownOutcome | None) -> list[ReconciledCall]:
    """Look what can be found out, then take a person's word on a call, the only one where `call` is ""; return both.

    Raises UsageError for a call whose outcome is no question, and for word that what was seen speaks against.
    """
    found = await reconcile_calls(session)
    await session.log.settle()
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

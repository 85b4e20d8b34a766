"""Runs calls, by a permit: one allowing verdict of one recorded judgement, used once; finds out what came of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from foregate.agent.effects.snapshots import Snapshots
from foregate.agent.session.prefetched import PrefetchedResult
from foregate.agent.session.result import DELEGATE, ChildPaused
from foregate.agent.session.session import PROCESS_ENDED
from foregate.agent.survey.surveyor import find_changed_resource
from foregate.agent.tools.builtin.files import edit_file, write_file
from foregate.agent.workspace.process import cap_text
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.evidence.state.conversation import CAME
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, RuntimeLost, UsageError, WorkspaceError
from foregate.schemas.event import Actor, Draft, Event, ModelResponded
from foregate.schemas.event_body import (
    AnswerCode,
    BeforeImage,
    KnownOutcome,
    OutcomeResolved,
    OutcomeUnknown,
    SideEffect,
    ToolFinished,
    ToolStarted,
)
from foregate.schemas.protocols import RunContext
from foregate.schemas.strict_json import get_text
from foregate.schemas.tool_call import CallFacts, Origin, Permit, Survey, ToolCall, ToolResult
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind
from foregate.telemetry.diagnostics import get_diagnostics
from foregate.telemetry.log.masking import Hidden, mask_text

if TYPE_CHECKING:
    from foregate.agent.session.session import Session


RUNTIME_LOST: AnswerCode = "runtime_lost"
"""The error of a call whose source says that where its tools run is gone."""

_CANCELLED = ToolResult(False, "cancelled", error="cancelled")


class NoPermit(Exception):
    """Something tried to run a call without an unused permit for exactly this call."""


@dataclass(frozen=True, slots=True)
class CallNotStarted:
    """Why a permitted call was not started: `stale_evidence`, `runtime_lost`, or `tool_failed` (no way back)."""

    code: AnswerCode
    message: str


async def execute(
    session: Session,
    permit: Permit,
    facts: CallFacts,
    actor: Actor = "model",
    *,
    early: bool = False,
    prefetched: PrefetchedResult | None = None,
) -> ToolResult | CallNotStarted:
    """Run the call a permit is for; return its result, or why it was not started after all.

    `early` is a read of a response that still arrives; a call that was `prefetched` so is answered from that.

    Appends `tool_started` durably before the effect and `tool_finished` (or `outcome_unknown`) after it.
    Raises NoPermit when the permit is used, unknown or for another call.
    """
    call, state = facts.call, session.state
    if state.permits.get((permit.judged, permit.call)) != permit.digest or call.digest != permit.digest:
        raise NoPermit(f"there is no unused permit for call `{call.id}`")
    own: Mapping[Resource, str] = state.open.own_changes if state.open else {}
    try:
        await session.tools.refresh([call])
    except RuntimeLost as error:
        return CallNotStarted(RUNTIME_LOST, str(error))
    now = session.surveyor.survey_call(call, state, again=True)
    if moved := find_changed_resource(facts.survey, now, own):
        why = f"`{moved}` changed after this call was judged; look at it again, then repeat the call"
        return CallNotStarted("stale_evidence", why)
    try:
        inverse = session.tools.inverse(call.name)
        snapshots = Snapshots(session.workspace, session.policy, session.blobs, inverse)
        kept = snapshots.keep_images(now.resources, facts)
    except WorkspaceError as error:
        return CallNotStarted("tool_failed", str(error))
    if facts.changes or call.name == DELEGATE.name:
        session.prefetched.clear()  # what was read before a change, or a task that may make one, may not be so after
    about: dict[str, Any] = {"call": call.id, "tool": call.name, "target": facts.target}
    about |= {"early": early, "look": prefetched.judged if prefetched is not None else None}
    await session.record(Draft(_build_start(permit, facts, kept, about), actor))
    if prefetched is not None:
        result, elapsed = prefetched.result, 0  # nothing begins, so nothing must wait until its start is durable
    else:
        try:
            await session.log.settle()
        except asyncio.CancelledError:  # it has not begun: nothing is unknown
            await session.record(_draft_finish(about, _CANCELLED, 0, actor))
            raise
        clock = time.monotonic_ns()
        result = await _run_started(session, facts, now, actor, about)
        elapsed = (time.monotonic_ns() - clock) // 1_000_000
        result = snapshots.add_missing_changes(_clean_result(result, session.hidden, session.policy), kept)
    if result.unknown and facts.changes:
        code = RUNTIME_LOST if result.error == RUNTIME_LOST else ""
        why = result.content[:200] if code else result.error or result.content[:200]
        await session.record(_draft_unknown(facts, why, code))
    else:
        await session.record(_draft_finish(about, result, elapsed, actor))
    return result


async def _run_started(
    session: Session, facts: CallFacts, now: Survey, actor: Actor, about: Mapping[str, Any]
) -> ToolResult:
    """Run a call whose start is durable, whatever its tool raises; cancelled, record first how the call ended."""
    call, changes = facts.call, facts.changes
    try:
        judgement = session.state.open.judgement if session.state.open else None
        context = RunContext(now, judgement is not None and judgement.is_approved(call.id))
        is_child = session.delegates and call.name == DELEGATE.name
        async with asyncio.timeout(facts.spec.timeout if facts.spec else None):
            result: object = await (_run_child(session, call) if is_child else session.tools.run(call, context))
        if not isinstance(result, ToolResult):
            raise TypeError(f"a {type(result).__name__} came back where a ToolResult must")
        return result
    except TimeoutError:
        return ToolResult(False, "the tool did not finish in time", error="timeout", unknown=changes)
    except asyncio.CancelledError:
        cancelled = _draft_unknown(facts, "cancelled") if changes else _draft_finish(about, _CANCELLED, 0, actor)
        await session.record(cancelled)
        raise
    except RuntimeLost as error:
        return ToolResult(False, str(error)[:2000], error=RUNTIME_LOST, unknown=changes)
    except Exception as error:
        get_diagnostics().exception("tool_raised", tool=call.name, call=call.id)
        return ToolResult(False, f"{type(error).__name__}: {error}"[:2000], error="tool_error", unknown=changes)


async def _run_child(session: Session, call: ToolCall) -> ToolResult:
    """Run the child task a call asks for; its name follows from the call, so that it can be resumed."""
    outcome = await session.run_child(get_text(call.arguments, "task"), name=f"{session.name}.{call.id}")
    if outcome.is_paused:
        raise ChildPaused(outcome)
    ok = outcome.status == "completed"
    text = outcome.text if ok else f"{outcome.status}: {outcome.report.blocker or outcome.text}"
    return ToolResult(ok, text, origin=Origin.EXTERNAL, error="" if ok else outcome.status, used=outcome.used)


def _clean_result(result: ToolResult, hidden: Hidden, policy: Policy) -> ToolResult:
    """Return a result masked, before a cut could leave half of a secret, and cut to what one call may return."""
    most = max(policy.files.max_output, policy.files.max_read, policy.http.max_bytes)
    text, dropped = cap_text(mask_text(result.content, hidden), most)
    return replace(result, content=text, error=mask_text(result.error, hidden), dropped=result.dropped + dropped)


def _build_start(
    permit: Permit, facts: CallFacts, kept: Sequence[BeforeImage], about: Mapping[str, Any]
) -> ToolStarted:
    """Return what is durable before the effect: permit, before-images, and the class by which to recover."""
    repeatable: SideEffect = "idempotent" if facts.capabilities.idempotent else "at_most_once"
    return ToolStarted(
        permit=permit,
        side_effect=repeatable if facts.changes else "pure",
        effect=facts.effect,
        before=tuple(kept),
        elsewhere=facts.spec is not None and facts.spec.is_elsewhere,
        **about,
    )


def _draft_finish(about: Mapping[str, Any], result: ToolResult, elapsed: int, actor: Actor) -> Draft:
    """Return the event of a call that ran: what it said, observed and changed. `elapsed` is in milliseconds."""
    body = ToolFinished(
        ok=result.ok,
        content=strict_json.scrub(result.content),
        duration=elapsed,
        origin=result.origin,
        evidence=result.evidence,
        changes=result.changes,
        error=result.error,
        dropped=result.dropped,
        used=dict(result.used),
        exit_code=result.exit_code,
        **about,
    )
    return Draft(body, "tool" if actor == "model" else actor)


def _draft_unknown(facts: CallFacts, reason: str, code: str = "") -> Draft:
    """Return the event of an effect nobody can vouch for; `code` names a cause that ends more than the call."""
    body = OutcomeUnknown(call=facts.call.id, tool=facts.call.name, target=facts.target, reason=reason, error=code)
    return Draft(body, "foregate")


_MAKERS = {"edit_file": edit_file, "write_file": write_file}
"""The tools whose change follows from the file as it was and the arguments alone."""


class ReconciledCall(NamedTuple):
    """What came of a call, and what is recorded of it."""

    call: str
    outcome: KnownOutcome


def compute_intended_hashes(session: Session, started: ToolStarted, call: ToolCall) -> dict[str, str]:
    """Return the hash of what a call would have made of its one file, by path, "" for nothing there.

    It is worked out on the file's before-image, so that no call has to say it beforehand; empty where not certain.
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
        begun, result = started[call], None
        outcome: KnownOutcome | None = None
        if begun.elsewhere:
            came = await session.tools.reconcile(call, begun.permit.digest)
            if came is not None:
                outcome, result = ("done", came.result) if came.done else ("not_done", None)
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
    """Return what the files of a call show, None for nothing certain; `ended` means nobody is left to write."""
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

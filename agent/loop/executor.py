"""Runs calls, by a permit: one allowing verdict of one recorded judgement, used once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from foregate.agent.loop.left_locks import remove_left_locks
from foregate.agent.loop.snapshots import Snapshots
from foregate.agent.session.result import DELEGATE, CallNotStarted, ChildPaused
from foregate.agent.session.turn_builder import CallRunner, PrefetchedResult
from foregate.agent.tools.tool import cap_text
from foregate.agent.workspace.cancelled_work import run_to_end
from foregate.agent.workspace.confined_program import allow_programs
from foregate.agent.workspace.confinement import hold_turn
from foregate.agent.workspace.in_place import begin_in_place, keep_before, put_back
from foregate.policy.policy import Policy
from foregate.policy.risk.declared import find_own_fields
from foregate.schemas import strict_json
from foregate.schemas.errors import RuntimeLost, SyncError, WorkspaceError
from foregate.schemas.event import Actor, Draft
from foregate.schemas.event_body import (
    AnswerCode,
    BeforeImage,
    OutcomeUnknown,
    SandboxEnded,
    SideEffect,
    ToolFinished,
    ToolStarted,
)
from foregate.schemas.protocols import RunContext
from foregate.schemas.strict_json import get_text
from foregate.schemas.tool_call import CallFacts, Origin, Permit, Survey, SurveyedResource, Tier, ToolCall, ToolResult
from foregate.schemas.tool_spec import Resource, ResourceKind
from foregate.telemetry.diagnostics import get_diagnostics
from foregate.telemetry.log.masking import Hidden, mask_text

if TYPE_CHECKING:
    from foregate.agent.session.session import Session


_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY)
RUNTIME_LOST: AnswerCode = "runtime_lost"
"""The error of a call whose source says that where its tools run is gone."""

STOPPED = "cancelled: all it started was stopped, and what it had done by then stands"
"""Why the effect of a cancelled command is unknown where no sandbox held what it did."""
_ALLOWED = nullcontext()
"""For a call that needs no leave to start programs."""
CANCELLED = ToolResult(False, "cancelled", error="cancelled")
"""The result of a call that was cancelled before it changed anything."""


class NoPermit(Exception):
    """Something tried to run a call without an unused permit for exactly this call."""


def check_permit(session: Session, permit: Permit, call: ToolCall) -> None:
    """Raise NoPermit where a permit is used, unknown or for another call."""
    if session.state.permits.get((permit.judged, permit.call)) != permit.digest or call.digest != permit.digest:
        raise NoPermit(f"there is no unused permit for call `{call.id}`")


class CallExecutor(CallRunner):
    """Runs calls of a session where its workspace is; what a sandbox holds is for whoever derives from it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def execute(
        self,
        permit: Permit,
        facts: CallFacts,
        actor: Actor = "model",
        *,
        early: bool = False,
        prefetched: PrefetchedResult | None = None,
    ) -> ToolResult | CallNotStarted:
        """Run a call, one that works in a sandbox only while no other process does so in this workspace."""
        session = self._session
        if not facts.changes or facts.survey.work in ("", "none"):
            return await execute(session, permit, facts, actor, early=early, prefetched=prefetched)
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(hold_turn(session.workspace))
            except WorkspaceError as error:
                return CallNotStarted("tool_failed", str(error))
            return await execute(session, permit, facts, actor, early=early, prefetched=prefetched)

    @classmethod
    def of(cls, session: Session) -> CallRunner:
        """Return a session's own runner of calls, else one of this machine."""
        return session.call_runner or cls(session)


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

    Appends `tool_started` durably before the effect and `tool_finished` (or `outcome_unknown`) after it. Where a
    program has changed something in its sandbox it appends `sandbox_ended`, and the call is not answered yet.
    Raises NoPermit when the permit is used, unknown or for another call.
    """
    call, state = facts.call, session.state
    check_permit(session, permit, call)
    own: Mapping[Resource, str] = state.open.own_changes if state.open else {}
    try:
        await session.tools.refresh([call])
    except RuntimeLost as error:
        return CallNotStarted(RUNTIME_LOST, str(error))
    now = session.surveyor.survey_call(call, state, again=True)
    if moved := _find_moved(facts, now, own):
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
    look = prefetched.judged if prefetched is not None else None
    lends = call.name == DELEGATE.name and session.delegates and session.policy.mandate.mode != "off"
    started = build_start(permit, facts, kept, early=early, look=look, lends=lends)
    if facts.spec is not None and (facts.spec.may_need_somebody or session.policy.sources):
        started = replace(started, own=find_own_fields(facts.spec, session.policy))
    if facts.contained and facts.survey.work == "limited":
        try:
            copies = await run_to_end(keep_before, session.workspace, session.policy)
        except (WorkspaceError, SyncError) as error:
            return CallNotStarted("tool_failed", str(error))
        started = replace(started, snapshot=copies)
    at = (await session.record(Draft(started, actor)))[-1].time
    if prefetched is not None:
        result, elapsed = prefetched.result, 0  # nothing begins, so nothing must wait until its start is durable
    else:
        result, elapsed = await _run_durably(session, facts, now, actor, started, at)
        result = snapshots.add_missing_changes(_clean_result(result, session.read_hidden(), session.policy), kept)
    await session.record(_draft_end(session, started, facts, result, elapsed, actor))
    return result


def _find_moved(facts: CallFacts, now: Survey, own: Mapping[Resource, str]) -> str:
    """Return what a call names and is another thing than when it was judged, "" for nothing."""
    moved = find_changed_resource(facts.survey, now, own)
    if not moved and is_script_another(facts.survey, now, contained=facts.contained):
        return f"the script of {facts.target}"
    return moved


def _draft_end(
    session: Session, started: ToolStarted, facts: CallFacts, result: ToolResult, elapsed: int, actor: Actor
) -> Draft:
    """Return the event that says how a call ended: in its sandbox, with an unknown outcome, or with its result."""
    if result.sandboxed.changes:
        return _draft_sandbox_end(session, started, result, elapsed)
    if result.unknown and (_has_effect(facts) or started.snapshot):
        code = RUNTIME_LOST if result.error == RUNTIME_LOST else ""
        why = result.content[:200] if code else result.error or result.content[:200]
        return draft_unknown(facts, why, code)
    return draft_finish(started, result, elapsed, actor)


async def _run_durably(
    session: Session, facts: CallFacts, now: Survey, actor: Actor, started: ToolStarted, at: str
) -> tuple[ToolResult, int]:
    """Run a call once its start is durable; return its result and how many milliseconds it took."""
    try:
        await session.log.settle()
    except asyncio.CancelledError:  # it has not begun: nothing is unknown
        await session.record(draft_finish(started, CANCELLED, 0, actor))
        raise
    clock = time.monotonic_ns()
    result = await _run_started(session, facts, now, actor, started, at)
    if started.lends:
        result = replace(result, shared=await session.read_shared(facts.call.id))
    elapsed = (time.monotonic_ns() - clock) // 1_000_000
    if not result.ok and _may_leave_locks(facts) and (unlocked := await remove_left_locks(session, started, at)):
        result = replace(result, content=f"{result.content} ({unlocked})")
    return result, elapsed


async def _run_started(
    session: Session, facts: CallFacts, now: Survey, actor: Actor, started: ToolStarted, at: str
) -> ToolResult:
    """Run a call whose start is durable, whatever its tool raises; cancelled, record first how the call ended."""
    call, changes = facts.call, _has_effect(facts)
    try:
        judgement = session.state.open.judgement if session.state.open else None
        now = replace(now, work=_find_holder(facts))  # its programs are held as they were judged
        context = RunContext(now, judgement is not None and judgement.is_approved(call.id))
        is_child = session.delegates and call.name == DELEGATE.name
        seconds = facts.spec.timeout if facts.spec else None
        own = facts.spec is not None and facts.spec.provenance == "python"
        with allow_programs(session.workspace, session.policy) if own else _ALLOWED:
            if started.snapshot:
                await run_to_end(begin_in_place, session.workspace, started.snapshot)
            try:
                async with asyncio.timeout(seconds):
                    result: object = await (_run_child(session, call) if is_child else session.tools.run(call, context))
            finally:
                if started.snapshot:
                    await run_to_end(put_back, session.workspace, session.policy, started.snapshot)
        if not isinstance(result, ToolResult):
            raise TypeError(f"a {type(result).__name__} came back where a ToolResult must")
        if _may_change_unseen(facts):
            await asyncio.to_thread(session.workspace.sync)
        return result
    except TimeoutError:
        return ToolResult(False, "the tool did not finish in time", error="timeout", unknown=changes)
    except asyncio.CancelledError:
        own = facts.survey.command is not None and facts.spec is not None and facts.spec.provenance == "builtin"
        why = STOPPED if own else "cancelled"  # its programs are gone by now
        unlocked = await remove_left_locks(session, started, at) if _may_leave_locks(facts) else ""
        why = f"{why}; {unlocked}" if unlocked else why
        cancelled = draft_unknown(facts, why) if changes else draft_finish(started, CANCELLED, 0, actor)
        await session.record(cancelled)
        raise
    except RuntimeLost as error:
        return ToolResult(False, str(error)[:2000], error=RUNTIME_LOST, unknown=changes)
    except SyncError as error:
        return ToolResult(False, str(error), unknown=changes or bool(started.snapshot))
    except Exception as error:
        get_diagnostics().exception("tool_raised", tool=call.name, call=call.id)
        return ToolResult(False, f"{type(error).__name__}: {error}"[:2000], error="tool_error", unknown=changes)


def _find_holder(facts: CallFacts) -> Literal["", Tier]:
    """Return what holds the command of a call where it changes something, as it was judged."""
    if facts.survey.work == "limited" and not facts.contained:
        return "none"  # for it gives nothing of what lies outside
    return facts.survey.work


def _has_effect(facts: CallFacts) -> bool:
    """Whether running a call may change anything: what works in a sandbox changes nothing until that is applied."""
    return facts.changes and not facts.contained


def _may_change_unseen(facts: CallFacts) -> bool:
    """Whether a call may change the workspace without the workspace doing it, which puts its own changes on disk."""
    if not _has_effect(facts) or facts.spec is None or facts.spec.is_elsewhere:
        return False
    kinds = {resource.kind for resource in facts.resources}
    return facts.spec.provenance != "builtin" or bool(kinds & {ResourceKind.PROCESS, ResourceKind.REPOSITORY})


def _may_leave_locks(facts: CallFacts) -> bool:
    """Whether a call may have run git, in a process that is gone once the call has ended."""
    return _may_change_unseen(facts) and facts.spec is not None and facts.spec.provenance == "builtin"


async def _run_child(session: Session, call: ToolCall) -> ToolResult:
    """Run the child task a call asks for; its name follows from the call, so that it can be resumed."""
    outcome = await session.run_child(get_text(call.arguments, "task"), name=session.name_child(call.id))
    if outcome.is_paused:
        raise ChildPaused(outcome)
    ok = outcome.status == "completed"
    text = outcome.text if ok else f"{outcome.status}: {outcome.report.blocker or outcome.text}"
    return ToolResult(ok, text, origin=Origin.EXTERNAL, error="" if ok else outcome.status, used=outcome.used)


def _clean_result(result: ToolResult, hidden: Hidden, policy: Policy) -> ToolResult:
    """Return a result masked, before a cut could leave half of a secret, and cut to what one call may return."""
    most = max(policy.files.max_output, policy.files.max_read, policy.http.max_bytes)
    text, dropped = cap_text(mask_text(result.content, hidden), most)
    error = mask_text(result.error, hidden) if result.error else ""
    if text is result.content and error == result.error:
        return result
    return replace(result, content=text, error=error, dropped=result.dropped + dropped)


def build_start(
    permit: Permit, facts: CallFacts, kept: Sequence[BeforeImage], *, early: bool, look: int | None, lends: bool = False
) -> ToolStarted:
    """Return what is durable before the effect: permit, before-images, and the class by which to recover."""
    repeatable: SideEffect = "idempotent" if facts.capabilities.idempotent else "at_most_once"
    return ToolStarted(
        call=facts.call.id,
        tool=facts.call.name,
        target=facts.target,
        permit=permit,
        side_effect=repeatable if _has_effect(facts) else "pure",
        effect=facts.effect,
        before=tuple(kept),
        elsewhere=facts.spec is not None and facts.spec.is_elsewhere,
        confinement=_find_holder(facts) if facts.changes and facts.survey.command else facts.survey.confinement,
        early=early,
        look=look,
        lends=lends,
    )


def _draft_sandbox_end(session: Session, started: ToolStarted, result: ToolResult, elapsed: int) -> Draft:
    """Return the event of a program that has ended in its sandbox; what it changed there is stored with it."""
    found = result.sandboxed
    body = SandboxEnded(
        call=started.call,
        tool=started.tool,
        target=started.target,
        ok=result.ok,
        content=strict_json.scrub(result.content),
        duration=elapsed,
        changes=session.blobs.put(found.encode()),
        counts=dict(sorted(Counter(change.effect.value for change in found.changes).items())),
        upper=found.upper,
        evidence=result.evidence,
        error=result.error,
        dropped=result.dropped,
        exit_code=result.exit_code,
    )
    return Draft(body, "tool")


def draft_finish(started: ToolStarted, result: ToolResult, elapsed: int, actor: Actor) -> Draft:
    """Return the event of a call that ran: what it said, observed and changed. `elapsed` is in milliseconds."""
    body = ToolFinished(
        call=started.call,
        tool=started.tool,
        target=started.target,
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
        early=started.early,
        look=started.look,
        shared=result.shared,
    )
    return Draft(body, "tool" if actor == "model" else actor)


def draft_unknown(facts: CallFacts, reason: str, code: str = "") -> Draft:
    """Return the event of an effect nobody can vouch for; `code` names a cause that ends more than the call."""
    body = OutcomeUnknown(call=facts.call.id, tool=facts.call.name, target=facts.target, reason=reason, error=code)
    return Draft(body, "foregate")


def find_changed_resource(judged: Survey, now: Survey, own: Mapping[Resource, str]) -> str:
    """Return the first resource that is not as judged, "" when all are; changes of the same response are expected."""
    found: Sequence[SurveyedResource] = now.resources
    if len(judged.resources) != len(found):
        found = [resource for resource in found if not _is_made_meanwhile(resource, judged, own)]
    if now.problem or len(judged.resources) != len(found):
        return now.problem or "the resources of the call"
    for before, after in zip(judged.resources, found, strict=True):
        same = before.id == after.id and before.exists == after.exists
        same = same and (before.hash, before.protected) == (after.hash, after.protected)
        if not same and not (before.id == after.id and _is_expected_change(before, after, own)):
            return after.id
    return ""


def is_script_another(judged: Survey, now: Survey, *, contained: bool) -> bool:
    """Whether a command would run another script than it was judged with, where what that does is not judged later."""
    if judged.command is None or now.command is None or (contained and not judged.command.access):
        return False
    return judged.command.scripts != now.command.scripts


def _is_made_meanwhile(resource: SurveyedResource, judged: Survey, own: Mapping[Resource, str]) -> bool:
    """Whether a resource was no part of the call when it was judged, and is one now because the same response made it.

    A word of a command names a file once there is one. Only a look at it is as harmless as it was before.
    """
    known = any((one.kind, one.id) == (resource.kind, resource.id) for one in judged.resources)
    looks = not resource.access.changes and not resource.protected
    return not known and looks and bool(resource.hash) and own.get(resource.resource) == resource.hash


def _is_expected_change(before: SurveyedResource, after: SurveyedResource, own: Mapping[Resource, str]) -> bool:
    """Whether the session's own changes of the same response explain that a resource differs."""
    if own.get(after.resource) == after.hash:
        return True
    if after.kind is not ResourceKind.DIRECTORY or before.protected != after.protected:
        return False
    prefix = f"{after.id}/"
    return any(changed.kind in _PATHS and changed.id.startswith(prefix) for changed in own)

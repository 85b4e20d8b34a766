"""What a person does with a plan: confirm it, decline it, retry it and roll it back. All of it is in the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from foregate.agent.loop.cancelling import answer_remaining
from foregate.agent.loop.reconcile import reconcile_calls
from foregate.agent.loop.undo import UndoReport, undo
from foregate.agent.planning.answering import PlanReport
from foregate.agent.planning.outlook import PlanPreview, build_scope, iter_open_calls, preview_plan
from foregate.agent.planning.planner import FROM_FILE
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.evidence.state.plan import ROLLED_BACK, PlanState, StepState
from foregate.schemas.errors import RuntimeLost, UsageError
from foregate.schemas.event import Actor, Draft
from foregate.schemas.event_body import STATUSES, ToolStarted
from foregate.schemas.task_plan import (
    FailureChoice,
    FillRequest,
    PlanConfirmed,
    PlanStepChanged,
    RecordedConfiguration,
    TaskStatus,
)

TakeBack = Callable[[Session, str], Awaitable[UndoReport]]
"""Takes back what a call of a session did."""


async def follow_plan(session: Session) -> PlanState:
    """Return the state of the session's plan; it goes on following the session."""
    state = await get_plan_state(session)
    session.subscribe(state.apply)
    return state


async def get_plan_state(session: Session) -> PlanState:
    """Return how the session's plan stands now."""
    return PlanState.of(await session.log.read_joined())


async def preview_open_tasks(session: Session, state: PlanState, uses: int = 0) -> PlanPreview:
    """Return what the open tasks would do, in a task of the session that is begun where none is open.

    `uses` is `execution.target_uses`. Raises UsageError for a plan that does not fit the digest it was proposed with.
    """
    if not state.is_intact:
        raise UsageError("the plan in the log does not fit its digest; `foregate audit verify` tells more")
    if session.state.task is None:
        await session.record_message(state.current_plan.query if state.planned else FROM_FILE)
    with suppress(RuntimeLost):
        await session.tools.refresh([call for _, _, call in iter_open_calls(state, session.catalogue)])
    return preview_plan(session, state, uses)


async def record_confirmation(
    session: Session,
    state: PlanState,
    looked: PlanPreview,
    digest: str,
    *,
    seen: bool,
    step: bool = False,
    configuration: RecordedConfiguration | None = None,
) -> None:
    """Record that the plan with this digest is confirmed.

    Where a person has `seen` the sheet, their yes covers each listed call as it was shown; else the plan is confirmed
    and the judge asks about its calls as about any other. With `step` the person is asked again before each task.
    `configuration` is given where the log does not name it yet as what the plan runs under. Raises
    UsageError for another plan than the one shown.
    """
    if digest != state.digest or digest != state.current_plan.digest:
        raise UsageError("the plan is not the one that was shown; look at it again")
    plan, task = None, session.state.task
    if seen:
        revision = task.plan.revision + 1 if task is not None and task.plan is not None else 1
        plan = build_scope(state.current_plan.goal or state.current_plan.query, looked, revision)
    body = PlanConfirmed(
        digest=digest,
        approved=seen,
        plan=plan,
        step=step,
        dry_run=session.state.dry_run,
        surveys=looked.surveys,
        configuration=configuration,
    )
    await session.record(Draft(body, "person" if seen else "user"))
    await session.log.settle()


async def end_declined(session: Session, why: str = "") -> RunResult:
    """End the open task, whose plan was not confirmed, for the reason the person gives."""
    reason = f" ({why})" if why else ""
    return await session.end_task("cancelled", blocker=f"the plan was not confirmed{reason}, so nothing of it ran")


async def end_unconfirmed(session: Session, report: PlanReport | None = None) -> RunResult:
    """End the task of a plan that waits for a yes while nobody is here; what ran before stays as it was reported."""
    way_on = f"`foregate execute {session.name}` at a terminal, or with --yes"
    if report is None:
        why = "a plan is proposed, and nobody is here to confirm it; nothing of it ran"
        return await session.end_task("blocked", blocker=why, need=way_on)
    why = "; ".join(filter(None, (report.reason, f"a further plan waits for a yes: {way_on}")))
    text = "\n\n".join(filter(None, (report.answer, f"[Foregate: {why}]")))
    status = next(status for status in STATUSES if status == report.status)
    return await session.end_task(status, text, blocker=why, need=way_on)


async def record_change(
    session: Session,
    state: PlanState,
    status: TaskStatus,
    *steps: StepState,
    why: str = "",
    anew: bool = False,
    ask: FillRequest | None = None,
    final: str = "",
    choice: str = "",
    actor: Actor = "foregate",
    configuration: RecordedConfiguration | None = None,
) -> None:
    """Record where tasks stand, all at once; `anew` begins their next attempt. See PlanStepChanged for the rest."""
    bodies = [
        PlanStepChanged(
            plan=state.digest,
            step=step.task.id,
            status=status,
            reason=why or None,
            attempt=step.attempt + 1 if anew else 0,
            ask=ask,
            final=final,
            choice=choice,
            configuration=configuration if step is steps[0] else None,
        )
        for step in steps
    ]
    await session.record(*(Draft(body, actor) for body in bodies))


async def decide(session: Session, state: PlanState, step: StepState, choice: FailureChoice) -> None:
    """Record what a person chose after a task failed; the plan then does it, also in another process."""
    final = ""
    if choice in ("stop", "roll_back"):
        final = f"task {step.task.id} failed ({step.reason}), and the person ended the plan"
    status: TaskStatus = "pending" if choice == "retry" else "failed"
    why = "retried" if choice == "retry" else step.reason
    await record_change(session, state, status, step, why=why, final=final, choice=choice, actor="person")


async def change_back(session: Session, state: PlanState, step: StepState, status: TaskStatus, why: str) -> None:
    """Record where a task stands once it is taken back or to be tried again; what ended the plan, if it did, stays."""
    await record_change(session, state, status, step, why=why, final=step.final, choice=step.choice)


async def reset_failed_tasks(session: Session, state: PlanState, only: int = 0) -> None:
    """Make the failed and aborted tasks pending again, or just one.

    What a task has done already is not done again. Raises UsageError where there is nothing to retry, while the plan
    runs, and for a task with a call whose outcome is unknown.
    """
    if state.running:
        raise UsageError("the plan is under way; resume it, or let it end, before a retry")
    steps = [step for step in state.steps.values() if only in (0, step.task.id)]
    chosen = [step for step in steps if step.status in ("failed", "aborted")]
    if not chosen:
        nothing = "no task of the plan failed; there is nothing to retry"
        raise UsageError(f"task {only} did not fail" if only else nothing)
    await reconcile_calls(session)
    for step in chosen:
        if lost := step.unknown_call:
            raise UsageError(
                f"it is unknown whether {lost} of task {step.task.id} took effect; look, then say so with "
                f"`foregate plans resolve {session.name} --done` or `--not-done` (in a chat /resolve)"
            )
    for step in chosen:
        await change_back(session, state, step, "pending", "retried")


async def roll_back_plans(session: Session, state: PlanState) -> list[str]:
    """End a plan under way, and undo what it and those before it for its request did; return what stays done."""
    if session.state.task is not None:
        await answer_remaining(session, "not_run_cancelled", "the plan is rolled back")
        for step in state.open:
            await change_back(session, state, step, "aborted", ROLLED_BACK)
        await session.end_task("cancelled", blocker="the plan is rolled back")
    return await undo_plan(session, state, [*state.earlier, *state.steps.values()])


async def undo_plan(
    session: Session, state: PlanState, steps: Iterable[StepState], take_back: TakeBack = undo
) -> list[str]:
    """Undo every call of tasks that changed something, in reverse; return what could not be undone.

    A task whose effects were undone, wholly or in part, is `aborted`, so that a retry may do that again, and only that;
    any other keeps its status.
    """
    await reconcile_calls(session)
    bodies = [event.body for event in await session.log.read_joined()]
    changed = {body.call for body in bodies if isinstance(body, ToolStarted) and body.side_effect != "pure"}
    left: list[str] = []
    for step in sorted(steps, key=_find_newest_event, reverse=True):
        if step.status not in ("done", "failed", "aborted"):
            continue
        stays: list[str] = []
        effects = [call for call in step.calls if call.id in changed]
        for call in (call for call in reversed(effects) if call.status in ("done", "unknown")):
            report = await take_back(session, call.id)
            if not report.done:
                stays.append(f"{call.tool} {call.target}".strip() + f" ({report.reason})")
        left += stays
        undone = step.status == "done" and any(call.status == "undone" for call in effects)
        if any(step is mine for mine in state.steps.values()) and (stays or undone):
            begin = f"{ROLLED_BACK}, except" if any(call.status == "undone" for call in effects) else "not undone"
            why = f"{begin}: {'; '.join(stays)}" if stays else ROLLED_BACK
            await change_back(session, state, step, "aborted" if undone else step.status, why[:400])
    return left


def _find_newest_event(step: StepState) -> int:
    """Return where in the log the newest call of a task stands: calls are named by the event that holds them."""
    places = [call.id.removeprefix("c").partition(".")[0] for call in step.calls]
    return max((int(place) for place in places if place.isdecimal()), default=0)

"""Taking back what a plan did, newest first, by the same undo as everywhere."""

from __future__ import annotations

from foregate.agent.effects.reconcile import reconcile_calls
from foregate.agent.effects.undo import undo
from foregate.agent.planning.run.step_change import change_back
from foregate.agent.session.session import Session
from foregate.evidence.state.plan import ROLLED_BACK, PlanState, StepState
from foregate.schemas.event_body import ToolStarted
from foregate.schemas.task_plan import TaskStatus


async def undo_plan(session: Session, state: PlanState, *, whole: bool = False) -> list[str]:
    """Undo every call of the plan that changed something, in reverse; return what could not be undone.

    With `whole` that goes for the plans before it that were for the same request, too.

    A task of which something was undone is `aborted`, so that a retry may do that again, and only that; one of which
    everything stays keeps its status.
    """
    await reconcile_calls(session)
    changed = await list_effective_calls(session)
    left: list[str] = []
    steps = [*(state.earlier if whole else ()), *state.steps.values()]
    for step in sorted(steps, key=lambda step: find_newest_event(step), reverse=True):
        if step.status not in ("done", "failed", "aborted"):
            continue
        stays: list[str] = []
        effects = [call for call in step.calls if call.id in changed]
        for call in reversed(effects):
            if call.status not in ("done", "unknown"):
                continue
            report = await undo(session, call.id)
            if not report.done:
                stays.append(f"{call.tool} {call.target}".strip() + f" ({report.reason})")
        left += stays
        undone = any(call.status == "undone" for call in effects)
        of_this_plan = any(step is mine for mine in state.steps.values())
        if of_this_plan and (stays or (undone and step.status == "done")):
            status: TaskStatus = "aborted" if undone and step.status == "done" else step.status
            begin = f"{ROLLED_BACK}, except" if undone else "not undone"
            why = f"{begin}: {'; '.join(stays)}" if stays else ROLLED_BACK
            await change_back(session, state, step, status, why[:400])
    return left


async def list_effective_calls(session: Session) -> set[str]:
    """Return the calls of the session that had an effect, or may have had one."""
    events = await session.log.read()
    bodies = (event.body for event in events)
    return {body.call for body in bodies if isinstance(body, ToolStarted) and body.side_effect != "pure"}


def find_newest_event(step: StepState) -> int:
    """Return where in the log the newest call of a task stands: calls are named by the event that holds them."""
    places = [call.id.removeprefix("c").partition(".")[0] for call in step.calls]
    return max((int(place) for place in places if place.isdecimal()), default=0)

"""The plans of the log, and which one a name means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from foregate.agent.planning.plan_state import PlanState
from foregate.cli.audit import opened_log
from foregate.cli.waiting import wait
from foregate.opening import workspace_of
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Kind

if TYPE_CHECKING:
    from foregate.telemetry.sqlite_log import SqliteLog

_KINDS: tuple[Kind, ...] = (
    "plan_proposed",
    "plan_confirmed",
    "plan_step_changed",
    "model_response",
    "tool_finished",
    "call_answered",
    "outcome_unknown",
    "effect_undone",
    "task_ended",
)


def plans_of(log: SqliteLog) -> Iterator[tuple[str, PlanState]]:
    """Yield the sessions that hold a plan, newest first."""
    for name in wait(log.sessions()):
        if next(iter(log.events(name, kinds=("plan_proposed",))), None) is not None:
            yield name, PlanState.of(log.events(name, kinds=_KINDS))


def find_plan(wanted: str) -> tuple[str, PlanState]:
    """Return the session and the state of a plan; raise UsageError where there is no such, or more than one."""
    with opened_log() as log:
        found = list(plans_of(log))
    if wanted == "last" and found:
        return found[0]
    fitting = [(name, state) for name, state in found if wanted in (name, state.known.id)]
    fitting = fitting or [(name, state) for name, state in found if wanted and name.startswith(wanted)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting and all(state.known.id == wanted for _, state in fitting):
        return fitting[0]
    if fitting:
        raise UsageError(f"{len(fitting)} plans begin with `{wanted}`; give more of the name")
    raise UsageError(f"there is no plan file and no plan `{wanted}`; `foregate plans list` names those there are")


def recorded(session: str) -> str:
    """Return the folder a session of the log works in."""
    with opened_log() as log:
        return wait(workspace_of(log, session))


def about(name: str, state: PlanState) -> dict[str, str | int]:
    """Return what a list says of a plan."""
    standing = "under way" if state.running else state.status if state.confirmed else "not confirmed"
    done = sum(step.status == "done" for step in state.steps.values())
    plan = state.known
    return {
        "session": name,
        "id": plan.id,
        "goal": plan.goal,
        "state": standing,
        "tasks": len(plan.tasks),
        "done": done,
    }

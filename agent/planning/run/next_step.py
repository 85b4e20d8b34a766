"""Which task of a plan comes next, and which can no longer come at all; pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from foregate.agent.planning.format.condition import holds
from foregate.evidence.state.plan import PlanState, StepState


class Ready(Struct, frozen=True):
    """A task whose turn it is; `skipped` says why it is not worked on, "" where it is."""

    step: StepState
    skipped: str = ""


def aborts(state: PlanState, strict: bool) -> Iterator[tuple[StepState, str]]:
    """Yield the pending tasks that cannot run any more, and why.

    A failed or aborted task takes its dependants with it, a skipped one only where dependencies are `strict`; a
    failure that ends the plan takes all.
    """
    lost: dict[int, str] = {
        number: f"task {number} {step.status}" if step.status == "failed" else f"task {number} was aborted"
        for number, step in state.steps.items()
        if step.status in ("failed", "aborted")
    }
    if strict and not state.dry_run:
        lost |= {number: f"task {number} was skipped" for number, s in state.steps.items() if s.status == "skipped"}
    ending = ending_of(state)
    for number in order(state):
        step = state.steps[number]
        if step.status != "pending":
            continue
        why = ending or next((lost[before] for before in step.task.depends_on if before in lost), "")
        if why:
            lost[number] = f"task {number} was aborted"
            yield step, why


def ending_of(state: PlanState) -> str:
    """Return why nothing more of the plan may run, "" while independent tasks may."""
    failed = [step for step in state.steps.values() if step.status == "failed"]
    final = next((step.final for step in failed if step.final), "")
    if final or not failed or state.known.on_failure not in ("stop", "rollback"):
        return final
    return f"task {failed[0].task.id} failed, and the plan ends with its first failure"


def undecided(state: PlanState) -> list[StepState]:
    """Return the failed tasks a person must decide on before the plan goes on, or ends."""
    if state.known.on_failure != "ask" or ending_of(state):
        return []
    return [step for step in state.steps.values() if step.status == "failed" and not step.choice]


def ready(state: PlanState) -> Ready | None:
    """Return the first pending task whose dependencies are behind it, None when there is none."""
    found = (readiness(state, state.steps[number]) for number in order(state))
    return next((one for one in found if one is not None), None)


def readiness(state: PlanState, step: StepState) -> Ready | None:
    """Return a task as one whose turn it is, None while it is not pending or waits for another."""
    waits = any(state.steps[before].status not in ("done", "skipped") for before in step.task.depends_on)
    if waits or step.status != "pending":
        return None
    yes, why = holds(step.task.when, state.results) if step.task.when is not None else (True, "")
    return Ready(step, "" if yes else why or "its condition does not hold")


def order(state: PlanState) -> list[int]:
    """Return the numbers of the tasks; each comes after those it depends on, for validation lets no other through."""
    return sorted(state.steps)

"""Which tasks of a plan come next and which of their calls, and which can no longer come at all; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from foregate.agent.planning.format.condition import evaluate, find_named_tasks
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas.tool_spec import Catalogue

ENDED = ("done", "failed", "skipped", "aborted")
"""Statuses of tasks that nothing more is to be expected of."""

Place = tuple[StepState, int]
"""A task and the place of one of its own calls."""


class Ready(Struct, frozen=True):
    """A task whose turn it is; `skipped` says why it is not worked on, "" where it is."""

    step: StepState
    skipped: str = ""


def find_aborted(state: PlanState, strict: bool) -> Iterator[tuple[StepState, str]]:
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
    ending = find_end_reason(state)
    for number in order_tasks(state):
        step = state.steps[number]
        if step.status != "pending":
            continue
        why = ending or next((lost[before] for before in step.task.depends_on if before in lost), "")
        if why:
            lost[number] = f"task {number} was aborted"
            yield step, why


def find_end_reason(state: PlanState) -> str:
    """Return why nothing more of the plan may run, "" while independent tasks may."""
    failed = [step for step in state.steps.values() if step.status == "failed"]
    final = next((step.final for step in failed if step.final), "")
    if final or not failed or state.current_plan.on_failure not in ("stop", "rollback"):
        return final
    return f"task {failed[0].task.id} failed, and the plan ends with its first failure"


def list_undecided(state: PlanState) -> list[StepState]:
    """Return the failed tasks a person must decide on before the plan goes on, or ends."""
    if state.current_plan.on_failure != "ask" or find_end_reason(state):
        return []
    return [step for step in state.steps.values() if step.status == "failed" and not step.choice]


def find_ready_task(state: PlanState) -> Ready | None:
    """Return the first pending task whose dependencies are behind it, None when there is none."""
    found = (get_readiness(state, state.steps[number]) for number in order_tasks(state))
    return next((one for one in found if one is not None), None)


def get_readiness(state: PlanState, step: StepState) -> Ready | None:
    """Return a task as one whose turn it is, None while it is not pending or waits for another."""
    waits = any(state.steps[before].status not in ("done", "skipped") for before in step.task.depends_on)
    if waits or step.status != "pending":
        return None
    yes, why = evaluate(step.task.when, state.results) if step.task.when is not None else (True, "")
    return Ready(step, "" if yes else why or "its condition does not hold")


def order_tasks(state: PlanState) -> list[int]:
    """Return the numbers of the tasks; each comes after those it depends on, for validation lets no other through."""
    return sorted(state.steps)


def looks(tool: str, catalogue: Catalogue) -> bool:
    """Whether a tool is known and only looks."""
    spec = catalogue.get(tool)
    return spec is not None and not spec.effect.changes


def only_looks(step: StepState, catalogue: Catalogue) -> bool:
    """Whether a task lists its calls and all of them only look."""
    return bool(step.task.calls) and all(looks(call.tool, catalogue) for call in step.task.calls)


def companions(state: PlanState, first: StepState, catalogue: Catalogue, bound: int) -> Iterator[StepState]:
    """Yield the tasks that may run together with `first`, `bound` calls in all: every one only looks.

    As within one response a look never overtakes a change that is written before it, and what a task waits for or
    asks about in its condition must have ended.
    """
    if not only_looks(first, catalogue):
        return
    room = bound - len(first.open_places)
    for number in order_tasks(state):
        step = state.steps[number]
        if step is first or step.status != "pending":
            continue
        if not only_looks(step, catalogue) or len(step.open_places) > room:
            return
        if all(state.steps[named].status in ENDED for named in find_named_tasks(step.task.when)):
            following = get_readiness(state, step)
            if following is not None and not following.skipped:
                room -= len(step.open_places)
                yield step


def next_places(steps: Sequence[StepState], catalogue: Catalogue, bound: int) -> list[Place]:
    """Return the calls to send next: one, or neighbouring looks of every task, at most `bound`."""
    found: list[Place] = []
    for step in steps:
        for place in step.open_places:
            if not looks(step.task.calls[place].tool, catalogue):
                break
            found.append((step, place))
    return found[:bound] or [(steps[0], steps[0].open_places[0])]

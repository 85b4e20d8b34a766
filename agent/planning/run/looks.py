"""Which tasks of a plan, and which of their calls, only look, so that they may run together; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foregate.agent.planning.format.condition import tasks_named
from foregate.agent.planning.run.next_step import order, readiness
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas.tool_spec import Catalogue

ENDED = ("done", "failed", "skipped", "aborted")
"""Statuses of tasks that nothing more is to be expected of."""

Place = tuple[StepState, int]
"""A task and the place of one of its own calls."""


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
    room = bound - len(first.left)
    for number in order(state):
        step = state.steps[number]
        if step is first or step.status != "pending":
            continue
        if not only_looks(step, catalogue) or len(step.left) > room:
            return
        if all(state.steps[named].status in ENDED for named in tasks_named(step.task.when or {})):
            following = readiness(state, step)
            if following is not None and not following.skipped:
                room -= len(step.left)
                yield step


def next_places(steps: Sequence[StepState], catalogue: Catalogue, bound: int) -> list[Place]:
    """Return the calls to send next: one, or neighbouring looks of every task, at most `bound`."""
    found: list[Place] = []
    for step in steps:
        for place in step.left:
            if not looks(step.task.calls[place].tool, catalogue):
                break
            found.append((step, place))
    return found[:bound] or [(steps[0], steps[0].left[0])]

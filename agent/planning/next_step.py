"""Which tasks of a plan come next and which of their calls, and which can no longer come at all; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foregate.agent.planning.condition import evaluate, find_named_tasks
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas.tool_spec import Catalogue

ENDED = ("done", "failed", "skipped", "aborted")
"""Statuses of tasks that nothing more is to be expected of."""

Place = tuple[StepState, int]
"""A task and the place of one of its own calls."""


def find_aborted(state: PlanState, strict: bool) -> Iterator[tuple[StepState, str]]:
    """Yield the pending tasks that cannot run any more, and why; a skipped one takes others along if `strict`."""
    words = {"failed": "failed", "aborted": "was aborted"}
    if strict and not state.dry_run:
        words["skipped"] = "was skipped"
    steps = state.steps.items()
    lost = {number: f"task {number} {words[step.status]}" for number, step in steps if step.status in words}
    ending = find_end_reason(state)
    # Each comes after those it depends on, for validation lets no other through.
    for number, step in steps:
        why = ending or next((lost[before] for before in step.task.depends_on if before in lost), "")
        if step.status == "pending" and why:
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


def find_ready_task(state: PlanState) -> tuple[StepState, str] | None:
    """Return the first pending task whose dependencies are behind it and why it is skipped; None where none is."""
    return next(
        ((step, _get_skip_reason(state, step)) for step in state.steps.values() if _is_ready(state, step)), None
    )


def _is_ready(state: PlanState, step: StepState) -> bool:
    behind = all(state.steps[before].status in ("done", "skipped") for before in step.task.depends_on)
    return behind and step.status == "pending"


def _get_skip_reason(state: PlanState, step: StepState) -> str:
    yes, why = evaluate(step.task.when, state.results) if step.task.when is not None else (True, "")
    return "" if yes else why


def looks(tool: str, catalogue: Catalogue) -> bool:
    """Whether a tool is known and only looks."""
    return tool in catalogue and not catalogue[tool].effect.changes


def _only_looks(step: StepState, catalogue: Catalogue) -> bool:
    return bool(step.task.calls) and all(looks(call.tool, catalogue) for call in step.task.calls)


def companions(state: PlanState, first: StepState, catalogue: Catalogue, bound: int) -> Iterator[StepState]:
    """Yield the tasks that may run together with `first`, `bound` calls in all: every one only looks.

    As within one response a look never overtakes a change that is written before it, and what a task waits for or
    asks about in its condition must have ended.
    """
    if not _only_looks(first, catalogue):
        return
    room = bound - len(first.open_places)
    for step in state.steps.values():
        if step is first or step.status != "pending":
            continue
        if not _only_looks(step, catalogue) or len(step.open_places) > room:
            return
        answered = all(state.steps[named].status in ENDED for named in find_named_tasks(step.task.when))
        if answered and _is_ready(state, step) and not _get_skip_reason(state, step):
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

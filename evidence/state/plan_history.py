"""The plans of a session, from the first to the newest, each as it stands; a fold over its events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from foregate.evidence.state.plan import ROLLED_BACK, PlanState
from foregate.schemas.event import Event
from foregate.schemas.event_body import EffectUndone, Kind, TaskPaused
from foregate.schemas.task_plan import PlanProposed

STANDING: tuple[Kind, ...] = ("plan_proposed", "plan_confirmed", "plan_step_changed", "task_paused", "task_ended")
"""What it takes to say where the tasks of a plan stand."""
_OUTCOMES: tuple[Kind, ...] = ("tool_finished", "call_answered", "outcome_unknown", "outcome_resolved", "effect_undone")
RESULTS: tuple[Kind, ...] = (*STANDING, "need_answered", "model_response", *_OUTCOMES)
"""What it takes to say what came of them."""


@dataclass(slots=True)
class PlanEntry:
    """One plan of a session: its `number` there, from 1, and whether it is the `latest`; `waits` says for what."""

    session: str
    number: int
    state: PlanState = field(default_factory=PlanState)
    latest: bool = True
    waits: str = ""

    @property
    def name(self) -> str:
        """The name the plan is asked for by: its session's, with a number where a later plan has taken that."""
        return self.session if self.latest else f"{self.session}/{self.number}"

    @property
    def standing(self) -> str:
        """Where the plan stands, in words."""
        if not self.state.confirmed:
            return "not confirmed"
        if self.state.running:
            return self.waits.replace("_", " ") or "under way" if self.latest else "replaced"
        if any(step.reason.startswith(ROLLED_BACK) for step in self.state.steps.values() if step.status == "aborted"):
            return ROLLED_BACK
        return "dry run" if self.state.dry_run else self.state.status.replace("_", " ")

    def count_tasks(self, *statuses: str) -> int:
        """Return how many tasks stand so."""
        return sum(step.status in statuses for step in self.state.steps.values())


def read_plans(events: Iterable[Event]) -> list[PlanEntry]:
    """Return the plans the events of one session tell of, oldest first.

    An event is the newest plan's; only what was undone later is told to those before it as well.
    """
    found: list[PlanEntry] = []
    for event in events:
        if isinstance(event.body, PlanProposed):
            if found:
                found[-1].latest = False
            found.append(PlanEntry(event.session, len(found) + 1))
        for entry in found if isinstance(event.body, EffectUndone) else found[-1:]:
            entry.state.apply(event)
            entry.waits = event.body.reason if isinstance(event.body, TaskPaused) else ""
    return found

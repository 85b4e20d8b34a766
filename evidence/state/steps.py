"""The steps of an accepted plan, and which of them are done, by which calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from foregate.schemas.event_body import ToolFinished
from foregate.schemas.judgement import Judgement
from foregate.schemas.strict_json import Json, get_int, get_list, get_object, get_text


@dataclass(slots=True)
class StepState:
    """One step of an accepted plan: `calls` are the events of the calls that were made for it and ended well."""

    id: str
    tool: str
    target: str
    description: str
    uses: int = 1
    calls: list[int] = field(default_factory=list)

    @property
    def completed_by(self) -> int:
        """The event that completed the step, 0 while calls of it are open."""
        return self.calls[self.uses - 1] if len(self.calls) >= self.uses else 0

    def is_about(self, body: ToolFinished) -> bool:
        """Whether a call is what the step names: its tool, and its target where it names one, perhaps by a pattern."""
        wanted = self.target.removeprefix("./").rstrip("/")
        return self.tool.casefold() == body.tool.casefold() and (not wanted or fnmatchcase(body.target, wanted))


def read_steps(judgement: Judgement) -> list[StepState]:
    """Return the steps of the plan a judgement puts in force, none where it changes no plan.

    A plan without planned steps is its first action.
    """
    row = next((d for d in judgement.decisions if d.gate == "plan" and judgement.plan is not None), None)
    if row is None or (plan := get_object(row.detail, "plan")).get("first_action") is None:
        return []
    planned = get_list(plan, "planned_steps") if plan.get("planned_steps") else [get_object(plan, "first_action")]
    revision = get_int(row.detail, "revision")
    return [_read_step(step, f"plan-v{revision}-step-{n}") for n, step in enumerate(planned, start=1)]


def _read_step(step: Json, name: str) -> StepState:
    data: Mapping[str, Json] = step if isinstance(step, dict) else {}
    uses = data.get("uses")
    tool, target, description = (get_text(data, key, "") for key in ("tool", "target", "description"))
    return StepState(name, tool, target, description, uses if isinstance(uses, int) and uses > 0 else 1)


def advance_steps(steps: Collection[StepState], seq: int, body: ToolFinished, used: Collection[str]) -> None:
    """Note a call that ended well under the first open step it was made for; `used` are those whose leave it used."""
    open_ = [step for step in steps if body.ok and not step.completed_by]
    named = (step for step in open_ if step.id in used)
    found = next(named, None) or next((step for step in open_ if step.is_about(body)), None)
    if found is not None:
        found.calls.append(seq)

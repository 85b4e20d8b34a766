"""What reading a plan gave: the plan as far as it could be read, what was filled in, and what is wrong."""

from __future__ import annotations

from msgspec import Struct

from foregate.schemas.task_plan import PlanDefect, TaskPlan


class Reading(Struct, frozen=True):
    """`plan` is None where the text holds none at all; `notes` are sentences about what was filled in or resolved."""

    plan: TaskPlan | None
    notes: tuple[str, ...] = ()
    defects: tuple[PlanDefect, ...] = ()

"""Everything that is wrong with a plan, at once, and the plan with its paths resolved."""

from __future__ import annotations

from msgspec import Struct

from foregate.agent.planning.configuration import Configuration
from foregate.agent.workspace import Workspace
from foregate.schemas.task_plan import PlanDefect, TaskPlan
from foregate.schemas.tool_spec import Catalogue


class Validation(Struct, frozen=True):
    """The plan with its paths resolved, what forbids running it, what merely looks odd, and what was resolved."""

    plan: TaskPlan
    defects: tuple[PlanDefect, ...] = ()
    warnings: tuple[PlanDefect, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether nothing forbids running the plan."""
        return not self.defects


def validate(plan: TaskPlan, catalogue: Catalogue, workspace: Workspace, configuration: Configuration) -> Validation:
    """Return every defect and warning of `plan`, ordered by task, and the plan with its paths resolved.

    Only looks at the workspace, never changes it; never raises for what the plan says.
    """
    raise NotImplementedError

"""Events of a plan a person confirms before it runs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from foregate.schemas.event_body import ContextCompressed, EventBody
from foregate.schemas.plan import PlanInForce
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import TaskPlan, TaskStatus


class PlanProposed(EventBody, frozen=True, kw_only=True, tag="plan_proposed"):
    """A plan, bound by its digest; `number` counts the plans made for one request."""

    proposal: TaskPlan
    digest: str
    number: int = 1
    notes: tuple[str, ...] = ()


class PlanConfirmed(EventBody, frozen=True, kw_only=True, tag="plan_confirmed"):
    """A plan may run. `approved` says that a person saw the sheet, and `plan` what that yes covers.

    With `step` the person is asked again before each task.
    """

    digest: str
    approved: bool
    plan: PlanInForce | None = None
    step: bool = False
    dry_run: bool = False


class FillRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the execution model is asked for a task that lists no calls.

    `request` is the hash of the blob with every message sent; `context` says what was left out of earlier results
    where they did not fit.
    """

    notice: str
    about: Mapping[str, Json]
    request: str
    context: ContextCompressed | None = None


class PlanStepChanged(EventBody, frozen=True, kw_only=True, tag="plan_step_changed"):
    """The status of a task changed, in the plan with the digest `plan`.

    `attempt` counts from 1 where the task begins anew. `final` says why its failure ends the whole plan, `choice` what
    a person chose after it failed.
    """

    plan: str
    step: int
    status: TaskStatus
    reason: str | None = None
    attempt: int = 0
    ask: FillRequest | None = None
    final: str = ""
    choice: str = ""

"""A plan a person confirms before it runs: tasks with their dependencies, and the result of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from foregate.schemas import strict_json
from foregate.schemas.event_body import ContextCompressed, EventBody
from foregate.schemas.noun import Noun
from foregate.schemas.plan import PlanInForce
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Survey

TaskStatus = Literal["pending", "running", "done", "failed", "skipped", "aborted", "paused"]
OnFailure = Literal["continue_independent", "stop", "rollback", "ask"]
FailureChoice = Literal["go_on", "retry", "roll_back", "stop"]
FAILURE_CHOICES: tuple[FailureChoice, ...] = ("go_on", "retry", "roll_back", "stop")
"""What a person chooses where a plan asks after a failure; `go_on` runs what does not depend on the failed task."""


class PlannedCall(Noun, frozen=True):
    """A tool call a task lists itself."""

    tool: str
    arguments: Mapping[str, Json] = field(default_factory=dict)
    description: str = ""


class PlanTask(Noun, frozen=True):
    """One task. Without `calls` an execution model fills them in from `action`, `target`, `reason` and `params`.

    `when` is a condition over the results of earlier tasks; a task whose condition is false is skipped. Of a task that
    `may_fail` a command that ran and ended with an error is done: how it ended is what later tasks look at.
    """

    id: int
    action: str = ""
    target: str = ""
    reason: str = ""
    expected_outcome: str = ""
    depends_on: tuple[int, ...] = ()
    params: Mapping[str, Json] = field(default_factory=dict)
    calls: tuple[PlannedCall, ...] = ()
    when: Mapping[str, Json] | None = None
    may_fail: bool = False


class TaskPlan(Noun, frozen=True):
    """A plan. `version` is the format's; `estimated_duration` is in seconds, 0 for unknown."""

    id: str
    query: str
    goal: str
    tasks: tuple[PlanTask, ...]
    version: int = 1
    estimated_duration: int = 0
    requires_confirmation: bool = True
    on_failure: OnFailure = "continue_independent"
    metadata: Mapping[str, Json] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The SHA-256 over the recorded form: what a confirmation is bound to."""
        return strict_json.digest(strict_json.dump(self))


class PlanDefect(Struct, frozen=True):
    """One thing wrong with a plan: the task's number (0 for the plan itself), the field, what is wrong, what to do."""

    task: int
    field: str
    problem: str
    remedy: str


class TaskCallResult(Struct, frozen=True):
    """What one call of a task gave, or what went wrong; `dropped` counts the bytes of `data` that were left out."""

    ok: bool
    data: str = ""
    errors: tuple[str, ...] = ()
    exit_code: int | None = None
    dropped: int = 0


class TaskResult(Struct, frozen=True):
    """The result of a task; `calls` are ids of the log, `reasoning` is what the execution model thought aloud."""

    task: int
    status: TaskStatus
    calls: tuple[str, ...] = ()
    responses: tuple[TaskCallResult, ...] = ()
    summary: str = ""
    duration_ms: int = 0
    error: str = ""
    reasoning: str = ""

    @property
    def success(self) -> bool:
        """Whether the task was done."""
        return self.status == "done"


class RecordedConfiguration(Noun, frozen=True):
    """The configuration a plan is made and run under: what of it is not as shipped, by section and key.

    `digest` is the SHA-256 over all values that a plan rests on, so that a version with other defaults is noticed.
    """

    digest: str
    changes: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)


class PlanProposed(EventBody, frozen=True, kw_only=True, tag="plan_proposed"):
    """A plan, bound by its digest; `number` counts the plans made for one request.

    `configuration` is what it was made under, None in logs of earlier versions.
    """

    proposal: TaskPlan
    digest: str
    number: int = 1
    notes: tuple[str, ...] = ()
    configuration: RecordedConfiguration | None = None


class PlanConfirmed(EventBody, frozen=True, kw_only=True, tag="plan_confirmed"):
    """A plan may run. Where a person `approved` the sheet, `plan` is what that covers; `step` asks before each task.

    `surveys` are what looking at its calls found for the sheet. `configuration` is what it runs under from now on, None
    where that is what the log named last.
    """

    digest: str
    approved: bool
    plan: PlanInForce | None = None
    step: bool = False
    dry_run: bool = False
    surveys: tuple[Survey, ...] = ()
    configuration: RecordedConfiguration | None = None


class FillRequest(Noun, frozen=True, kw_only=True):
    """What the execution model is asked: `request` is the hash of all messages, `context` says what was left out."""

    notice: str
    about: Mapping[str, Json]
    request: str
    context: ContextCompressed | None = None


class PlanStepChanged(EventBody, frozen=True, kw_only=True, tag="plan_step_changed"):
    """The status of a task changed, in the plan with the digest `plan`.

    `attempt` counts from 1 where the task begins anew. `final` says why its failure ends the whole plan, `choice` what
    a person chose after it failed. `configuration` is the plan's new one, None where the log's last one holds.
    """

    plan: str
    step: int
    status: TaskStatus
    reason: str | None = None
    attempt: int = 0
    ask: FillRequest | None = None
    final: str = ""
    choice: str = ""
    configuration: RecordedConfiguration | None = None

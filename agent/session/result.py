"""What comes of a task, and how one is handed on: to a plan, or to a child."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from foregate.schemas.event_body import AnswerCode, Report
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import OBSERVER, Effect, ToolSpec


class RunResult(Struct, frozen=True):
    """The end of a task, or its pause.

    `status` is completed, blocked, budget_exhausted, cancelled, failed, or a pause: needs_input, awaiting_approval,
    or paused where a plan is under way.

    `text` is the answer, or the question of a pause. `remark` is the line by Foregate the answer ends with, if any.
    `used` is what a child task spent.
    """

    status: str
    text: str = ""
    report: Report = field(default_factory=Report)
    remark: str = ""
    used: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_paused(self) -> bool:
        """Whether the next message or answer resumes the task."""
        return self.status in ("needs_input", "awaiting_approval")

    @property
    def model_text(self) -> str:
        """What of `text` the model said itself."""
        return "" if self.is_paused else self.text.removesuffix(self.remark).strip()


class PlanDriver(Protocol):
    """Takes the open task of its session through the plan the log asks for, from wherever it says that this stands."""

    def begin(self) -> None:
        """Hear that the loop takes up the task anew."""

    async def take_step(self) -> RunResult | None:
        """Take one step: make the plan the task wants, have it confirmed, or go on; None until there is an outcome."""

    async def cancel(self, why: str) -> RunResult | None:
        """End a plan under way because somebody cancelled it; None where none is."""

    def pause(self) -> bool:
        """Let a plan that runs pause after the call in hand; whether one runs."""


class CallNotStarted(Struct, frozen=True):
    """Why a permitted call was not started: `stale_evidence`, `runtime_lost`, or `tool_failed` (no way back)."""

    code: AnswerCode
    message: str


_TASK: dict[str, Json] = {"type": "string", "minLength": 1, "description": "What to do, with all it needs to know."}
DELEGATE = ToolSpec(
    "delegate",
    "Hand a self-contained part of the work to a helper with the same tools and rules; it answers in words.",
    {"type": "object", "properties": {"task": _TASK}, "required": ["task"]},
    Effect.OBSERVATION,
    OBSERVER,
    (),
    "builtin",
    timeout=24 * 3600,
)
"""An observation of its own: each call of the child is judged in the child's log."""


class ChildPaused(BaseException):
    """A child waits for a person, so its parent pauses; no error, and nothing that handles errors may stop it."""

    def __init__(self, outcome: RunResult) -> None:
        super().__init__(outcome.status)
        self.outcome = outcome

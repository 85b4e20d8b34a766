"""How a task ended or paused."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from foregate.schemas.event_body import Report


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
        """Whether the task goes on with the next message or answer."""
        return self.status in ("needs_input", "awaiting_approval")

    @property
    def model_text(self) -> str:
        """What of `text` the model said itself."""
        return "" if self.is_paused else self.text.removesuffix(self.remark).strip()

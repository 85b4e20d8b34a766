"""Events of a task: how it begins, what people say in it, how it pauses and ends."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from foregate.schemas.event_body import EventBody
from foregate.schemas.turn import Refusal

Status = Literal["completed", "blocked", "budget_exhausted", "cancelled", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)
PauseReason = Literal["needs_input", "awaiting_approval", "paused"]


class Report(Struct, frozen=True, forbid_unknown_fields=True):
    """What anything but `completed` reports: what was done, what is in the way, what is needed, what comes next."""

    done: tuple[str, ...] = ()
    blocker: str = ""
    need: str = ""
    next_step: str = ""


class TaskStarted(EventBody, frozen=True, kw_only=True, tag="task_started"):
    """A task begins: its number in the session and its depth, 0 for a person's.

    `plan` says that the person asked for a plan. A child task inherits `refusals`; None for any other task.
    """

    task: int
    depth: int
    plan: bool = False
    refusals: tuple[Refusal, ...] | None = None


class UserMessage(EventBody, frozen=True, kw_only=True, tag="user_message"):
    """What a person said, or what a parent task asks of its child; the event's actor tells which."""

    text: str


class TaskPaused(EventBody, frozen=True, kw_only=True, tag="task_paused"):
    """The task waits for a person; `question` is what it needs to know, None where it waits for a yes."""

    reason: PauseReason
    question: str | None = None


class TaskEnded(EventBody, frozen=True, kw_only=True, tag="task_ended"):
    """How a task ended. `duration` is in seconds, waiting for a person left out; `cost` in micro-units."""

    status: Status
    text: str
    duration: int
    turns: int
    model_calls: int
    tool_calls: int
    tokens: int
    cost: int
    note: str
    report: Report

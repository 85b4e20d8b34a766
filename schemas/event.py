"""The events of a session's log."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from foregate.schemas.event_body import (
    CallAnswered,
    CatalogChanged,
    Checkpoint,
    ContextCompressed,
    EffectUndone,
    Kind,
    OutcomeResolved,
    OutcomeUnknown,
    PolicyChanged,
    SessionEnded,
    SessionStarted,
    TaskEnded,
    TaskPaused,
    TaskStarted,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from foregate.schemas.judging_events import NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.plan_events import PlanConfirmed, PlanProposed, PlanStepChanged
from foregate.schemas.response_events import ModelResponded

FORMAT = 1
"""Version of the log's format; raised when a reader of the old one would misread."""

GENESIS = "0" * 64
"""The previous hash of a session's first event."""

Actor = Literal["user", "parent", "model", "planner", "critic", "person", "runner", "postlude", "foregate", "tool"]

Body: TypeAlias = (
    SessionStarted
    | CatalogChanged
    | PolicyChanged
    | TaskStarted
    | UserMessage
    | ModelResponded
    | TurnJudged
    | NeedRaised
    | NeedAnswered
    | ToolStarted
    | ToolFinished
    | CallAnswered
    | OutcomeUnknown
    | OutcomeResolved
    | EffectUndone
    | ContextCompressed
    | PlanProposed
    | PlanConfirmed
    | PlanStepChanged
    | TaskPaused
    | TaskEnded
    | SessionEnded
    | Checkpoint
)
"""What happened: one class per kind of event, so that a reader can `match` and end in `assert_never`."""


class Draft(Struct, frozen=True):
    """An event before the log gave it a number. Its body holds no floats and only ASCII keys."""

    body: Body
    actor: Actor

    @property
    def kind(self) -> Kind:
        """The name of what happened."""
        return self.body.kind


class Event(Struct, frozen=True, forbid_unknown_fields=True):
    """A recorded event. `time` is UTC text, `hash` the SHA-256 over the canonical JSON of everything else."""

    v: int
    foregate: str
    seq: int
    session: str
    time: str
    actor: Actor
    policy: str
    prev: str
    body: Body
    hash: str

    @property
    def kind(self) -> Kind:
        """The name of what happened."""
        return self.body.kind

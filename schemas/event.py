"""The events of a session's log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

from foregate.schemas.strict_json import Json

FORMAT = 1
"""Version of the log's format; raised when a reader of the old one would misread."""

Kind = Literal[
    "session_started",
    "catalog_changed",
    "policy_changed",
    "task_started",
    "user_message",
    "model_response",
    "turn_judged",
    "need_raised",
    "need_answered",
    "tool_started",
    "tool_finished",
    "call_answered",
    "outcome_unknown",
    "outcome_resolved",
    "effect_undone",
    "context_compressed",
    "plan_proposed",
    "plan_confirmed",
    "plan_step_changed",
    "task_paused",
    "task_ended",
    "session_ended",
    "checkpoint",
]
KINDS: tuple[str, ...] = get_args(Kind)

Actor = Literal["user", "parent", "model", "planner", "critic", "person", "runner", "postlude", "foregate", "tool"]

Status = Literal["completed", "blocked", "budget_exhausted", "cancelled", "failed"]
STATUSES: tuple[str, ...] = get_args(Status)

GENESIS = "0" * 64
"""The previous hash of a session's first event."""


class Draft(Struct, frozen=True):
    """An event before the log gave it a number. `body` holds no floats and only ASCII keys."""

    kind: Kind
    actor: Actor
    body: Mapping[str, Json]


class Event(Struct, frozen=True):
    """A recorded event. `time` is UTC text, `hash` the SHA-256 over the canonical JSON of everything else."""

    v: int
    foregate: str
    seq: int
    session: str
    time: str
    kind: Kind
    actor: Actor
    policy: str
    prev: str
    body: Mapping[str, Json]
    hash: str

"""What every kind of event has in common: a name, and a body of which every field is known."""

from __future__ import annotations

from typing import Literal, cast, get_args

from msgspec import Struct

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
KINDS: tuple[Kind, ...] = get_args(Kind)


class EventBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """The body of an event; the tag of its class is the name its events have in the log.

    A field with a default is left out of the log where it has that default; every other field is always written.
    """

    @property
    def kind(self) -> Kind:
        """The name of what happened."""
        return get_kind(type(self))


def get_kind(body: type[EventBody]) -> Kind:
    """Return the name that events with such a body have in the log."""
    return cast(Kind, body.__struct_config__.tag)

"""A question to a person as an object of its own: when one is open, by a session's events alone, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    EventBody,
    OutcomeUnknown,
    SessionEnded,
    TaskEnded,
    TaskStarted,
    ToolFinished,
    UserMessage,
)
from foregate.schemas.identity import Identity
from foregate.schemas.judgement import Answer
from foregate.schemas.strict_json import Json, get_text
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged

_CLOSING: tuple[type[EventBody], ...] = (
    *(NeedAnswered, TurnJudged, ModelResponded, UserMessage, TaskStarted, TaskEnded, SessionEnded),
    *(PlanProposed, PlanConfirmed, PlanStepChanged),
)
"""Events after which nobody waits for the answer any more."""
_OF_CALLS = (CallAnswered, ToolFinished, OutcomeUnknown)


class AskedQuestion(NamedTuple):
    """A question to a person as its event has it: number, time and policy of the event, and what was raised."""

    seq: int
    time: str
    policy: str
    raised: NeedRaised


def follow_question(open_: AskedQuestion | None, event: Event) -> AskedQuestion | None:
    """Return the question to a person that is open after an event, where `open_` was before it."""
    body = event.body
    if isinstance(body, NeedRaised):
        return AskedQuestion(event.seq, event.time, event.policy, body) if body.need.who == "person" else None
    if open_ is None or isinstance(body, _CLOSING):
        return None
    if isinstance(body, _OF_CALLS) and body.call in open_.raised.need.calls:
        return None
    return open_


class PlanAnswer(Struct, frozen=True):
    """A person's answer to a question about a plan, and the hash of what was asked."""

    answer: Answer
    request: str


class HandedAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """A person's answer on its way into the log: the value of a Reply, or None and why there is none, and when.

    `id` tells it from every other answer to the same question, so that of two each knows which was the first. `person`
    is who gave it, None where nobody says.
    """

    id: str
    at: str
    value: dict[str, Any] | None = None
    error: str = ""
    person: Identity | None = None

    @property
    def text(self) -> str:
        """The answer as a store keeps it."""
        return strict_json.canonical(strict_json.dump(self)).decode()

    @property
    def by(self) -> str:
        """Who answered, "" where nobody did."""
        return self._get("by")

    @property
    def choice(self) -> str:
        """What they chose, "" where nobody did."""
        return self._get("choice")

    @classmethod
    def of(cls, text: str) -> HandedAnswer:
        """Return the answer that a store kept; raise InvalidJson for a text that is none."""
        value = strict_json.parse(text)
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise InvalidJson(f"a kept answer cannot be read ({error})") from None

    def _get(self, key: str) -> str:
        value: Mapping[str, Json] = self.value or {}
        return get_text(value, key, "") if isinstance(value.get(key, ""), str) else ""

"""A question to a person as an object of its own: when one is open, by a session's events alone, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import EndBody, EventBody, SessionEnded, TaskEnded, TaskStarted, UserMessage
from foregate.schemas.identity import Identity
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.strict_json import Json, get_text
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged

_CLOSING: tuple[type[EventBody], ...] = (
    *(NeedAnswered, TurnJudged, ModelResponded, UserMessage, TaskStarted, TaskEnded, SessionEnded),
    *(PlanProposed, PlanConfirmed, PlanStepChanged),
)
"""Events after which nobody waits for the answer any more."""


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
    if isinstance(body, EndBody) and body.call in open_.raised.need.calls:
        return None
    return open_


class PlanAnswer(Struct, frozen=True):
    """A person's answer to a question about a plan, and the hash of what was asked."""

    answer: Answer
    request: str


class PendingAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """A person's answer on its way into the log: the value of a Reply, or None and why it is missing, and when.

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
    def of(cls, text: str) -> PendingAnswer:
        """Return the answer that a store kept; raise InvalidJson for a text that is none."""
        value = strict_json.parse(text)
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise InvalidJson(f"a kept answer cannot be read ({error})") from None

    def _get(self, key: str) -> str:
        value: Mapping[str, Json] = self.value or {}
        return get_text(value, key, "") if isinstance(value.get(key, ""), str) else ""


class Question(Struct, frozen=True):
    """A question to a person, as it was asked. `need` holds the request, `previews` names the blob of what its calls
    would change, "" for none.

    `given` is an answer that is not in the session's log yet. `problem` says why the request cannot be read.
    """

    session: str
    asked: AskedQuestion
    need: Need
    given: PendingAnswer | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        """The question's name: its session and the event that asks it."""
        return f"{self.session}:{self.asked.seq}"

    @property
    def previews(self) -> str:
        """The hash of the blob that says what the calls would change, "" for none."""
        return self.asked.raised.previews

    def is_expired(self, now: str) -> bool:
        """Whether an answer given at a UTC time would come too late."""
        return bool(self.need.expires_at) and now > self.need.expires_at


def describe_end(name: str, event: Event) -> str:
    """Return why a question is open no more, after the event that ended it."""
    match event.body:
        case NeedAnswered(answer=answer) if answer.value is not None:
            by = str(event.body.by or answer.value.get("by", ""))[:64]
            return f"`{name}` was answered already: {answer.choice}, by {by}, at {answer.at or event.time}"
        case NeedAnswered():
            return f"`{name}` is closed: nobody answered it in time"
        case NeedRaised() if event.body.need.who == "person":
            return f"`{name}` is closed: things have changed since, and it was asked anew by event {event.seq}"
        case _:
            return f"`{name}` is closed: its task went on or ended without it (event {event.seq}, {event.kind})"

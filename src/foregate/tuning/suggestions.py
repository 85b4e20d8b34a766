"""What the log says a person could permit: what they were asked again and again, and what that would let through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct
from pydantic import ValidationError

from foregate.evidence.state.recorded_turns import RecordedTurn, read_judged_turns
from foregate.policy.policy import Policy
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.risk.permitted import is_covered
from foregate.policy.source.load import restore_policy
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, InvalidJson
from foregate.schemas.event import Event, NeedAnswered, NeedRaised
from foregate.schemas.event_body import SessionStarted
from foregate.schemas.permission import Permission
from foregate.schemas.protocols import Blobs, Readable
from foregate.schemas.strict_json import Json, as_object, get_list, get_object, get_text
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import build_catalogue

_SHOWN = 160


class AskedCall(Struct, frozen=True):
    """A call that a person was asked about: where it stands in the log, what it was, and whether they said yes.

    `offered` is what its sheet offered to permit; nothing covers a call for which it offered nothing.
    """

    session: str
    seq: int
    time: str
    words: str
    agreed: bool
    facts: CallFacts
    policy: Policy
    offered: tuple[Permission, ...]

    def is_covered_by(self, permission: Permission) -> bool:
        """Whether a permission would have let the call through unasked."""
        if not self.offered or not {*self.offered[0].reasons} <= {*permission.reasons}:
            return False
        return is_covered(self.facts, permission, self.time, self.policy)

    def to_json(self) -> dict[str, Json]:
        """Return where the call stands, what it was, and what was answered."""
        said = "yes" if self.agreed else "no"
        return {"session": self.session, "event": self.seq, "time": self.time, "call": self.words, "answer": said}


class PermissionSuggestion(Struct, frozen=True):
    """A permission, the recorded calls it would have let through, and those of them to which a person said no."""

    permission: Permission
    calls: tuple[AskedCall, ...]

    @property
    def refused(self) -> list[AskedCall]:
        """The calls it would have let through against a no."""
        return [call for call in self.calls if not call.agreed]

    def to_json(self) -> dict[str, Json]:
        """Return the permission and the calls; `suggested` is whether nobody said no to any."""
        about: dict[str, Json] = {"suggested": not self.refused, "permission": self.permission.id}
        return about | {"words": self.permission.words, "calls": [call.to_json() for call in self.calls]}


def read_asked_calls(log: Readable, blobs: Blobs, sessions: Iterable[str], workspace: str) -> Iterator[AskedCall]:
    """Yield the calls of a workspace's sessions that a person was asked about; one that cannot be read has none."""
    for name in sessions:
        first = next(iter(log.events(name, until=1)), None)
        if first is None or not isinstance(first.body, SessionStarted) or first.body.workspace != workspace:
            continue
        with suppress(ForegateError, LookupError, ValidationError, ValueError, TypeError):
            yield from _read_session(name, list(log.events(name)), blobs)


def _read_session(name: str, events: Sequence[Event], blobs: Blobs) -> Iterator[AskedCall]:
    requests = dict(_read_requests(events, blobs))
    for recorded in read_judged_turns(events):
        answers = [answer for answer in recorded.turn.answers if answer.seq in requests and answer.value is not None]
        if not answers:
            continue
        policy, tools = recorded.in_force.require()
        in_force = restore_policy(dict(policy))
        facts = compute_turn_facts(recorded.turn, in_force, build_catalogue(tools))
        for answer in answers:
            request = requests[answer.seq]
            for call in map(as_object, get_list(request, "calls")):
                known = facts.get(get_text(call, "call", ""))
                if known is not None:
                    agreed = answer.is_yes_to(known.call.id)
                    yield _build_asked(name, recorded, answer.seq, call, known, in_force, request, agreed)


def _build_asked(
    name: str,
    recorded: RecordedTurn,
    seq: int,
    call: Json,
    facts: CallFacts,
    policy: Policy,
    request: Json,
    agreed: bool,
) -> AskedCall:
    words = f"{facts.call.name} {facts.target}".strip()[:_SHOWN]
    return AskedCall(name, seq, recorded.turn.now, words, agreed, facts, policy, tuple(_list_offered(call, request)))


def _list_offered(call: Json, request: Json) -> Iterator[Permission]:
    """Yield what a sheet offered to permit as of one call, the narrow form first."""
    offered = {get_text(one, "id"): one for one in get_list(request, "permissions")}
    for one in get_object(call, "permits").values():
        if isinstance(one, str) and one in offered:
            yield strict_json.load(Permission, offered[one])


def _read_requests(events: Sequence[Event], blobs: Blobs) -> Iterator[tuple[int, Json]]:
    """Yield what was asked, by the number of the event that answered it."""
    asked = ""
    for event in events:
        if isinstance(event.body, NeedRaised):
            asked = event.body.request if event.body.need.gate == "approval" else ""
        elif isinstance(event.body, NeedAnswered) and asked and event.body.answer.gate == "approval":
            with suppress(InvalidJson, KeyError, ForegateError, OSError, UnicodeDecodeError):
                yield event.seq, strict_json.parse(blobs.get(asked).decode())


def suggest_permissions(
    asked: Sequence[AskedCall], given: Sequence[Permission], least: int
) -> tuple[list[PermissionSuggestion], list[PermissionSuggestion]]:
    """Return what could be permitted, what would have spared the most questions first, and what should not be.

    That is what would have let through a call to which somebody said no. `least` is how often a yes must have been
    said; what is `given` already is none.
    """
    offered = {one.id: one for call in asked for one in call.offered}
    known = {one.id for one in given}
    good: list[PermissionSuggestion] = []
    bad: list[PermissionSuggestion] = []
    for name, permission in offered.items():
        calls = tuple(call for call in asked if call.is_covered_by(permission))
        if name in known or sum(call.agreed for call in calls) < least:
            continue
        if any(all(call.is_covered_by(one) for call in calls) for one in given):
            continue
        found = PermissionSuggestion(permission, calls)
        (bad if found.refused else good).append(found)
    good = [one for one in good if not _has_narrower(one, good)]
    return sorted(good, key=_rank), sorted(bad, key=_rank)


def _has_narrower(wide: PermissionSuggestion, others: Sequence[PermissionSuggestion]) -> bool:
    """Whether a permission that covers less would have let the same calls through."""
    is_wide = bool(wide.permission.leading or wide.permission.patterns)
    return is_wide and any(
        one.calls == wide.calls and not (one.permission.leading or one.permission.patterns) for one in others
    )


def _rank(one: PermissionSuggestion) -> tuple[int, str]:
    return -len(one.calls), one.permission.id

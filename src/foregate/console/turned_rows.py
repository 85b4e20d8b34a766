"""Calls that come out otherwise at another value of a key, as a list shows them and takes labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from foregate.audit.pieces import UNREADABLE
from foregate.cli.terminal.event_rows import name_call
from foregate.console.console import LINKS
from foregate.schemas.errors import LogError
from foregate.schemas.event import TurnJudged
from foregate.schemas.review import RuledCall
from foregate.telemetry.audit.rebuild_turn import EventWindow, rebuild_turn
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.review.reviews import Reviews
from foregate.tuning.cube_view import TurnedCall
from foregate.tuning.recorded_counts import read_end


class TurnedRow(Struct, frozen=True):
    """A call: what it is about, its arguments, what became of it, what would now, where its decision is shown, and the
    reviewer's label."""

    ruled: RuledCall
    about: str
    arguments: str
    then: str
    would: str
    time: str
    link: str
    label: str


def list_rows(log: SqliteLog, reviews: Reviews, reviewer: str, calls: Iterable[TurnedCall]) -> Iterator[TurnedRow]:
    """Yield a row for each call that the log still tells of."""
    for one in calls:
        try:
            row = _build_row(log, reviews, reviewer, one)
        except (*UNREADABLE, LogError):
            continue
        if row is not None:
            yield row


def _build_row(log: SqliteLog, reviews: Reviews, reviewer: str, one: TurnedCall) -> TurnedRow | None:
    near = EventWindow(log, one.session)
    event = near(one.seq)
    if not isinstance(event.body, TurnJudged):
        return None
    judgement, end = event.body.judgement, read_end(event.body, near)
    asked = any(one.call in question.calls for question in end.asked if question.who == "person")
    verdict = judgement.find_verdict(one.call)
    gates = [decision.gate for decision in judgement.decisions]
    gate = next(name for name in (one.gate, verdict.gate, *gates) if name in gates)
    ruled = RuledCall(one.session, one.seq, gate, one.call, event.hash, verdict.digest)
    held = next((name for call, name in end.stopped if call == one.call), "")
    then = f"held by {held}" if held else "asked about, and ran" if asked else "ran"
    given = reviews.find_label(ruled, reviewer)
    turn = rebuild_turn(event.body.turn, near)
    call = next(call for call in turn.calls if call.id == one.call)
    target = next((survey.target for survey in turn.surveys if survey.call == one.call), "")
    return TurnedRow(
        ruled,
        name_call(call.name, target),
        call.raw,
        then,
        describe_turn(one),
        event.time,
        LINKS.decision(one.session, one.seq, gate, one.call),
        given.body.label if given is not None else "",
    )


def describe_turn(one: TurnedCall) -> str:
    """Return what would become of a call that turns, compared with the value in force."""
    parts = []
    if one.held:
        parts.append(f"would be held by {one.gate}" if one.held > 0 else "would not be held")
    if one.asked:
        parts.append("would be asked about" if one.asked > 0 else "would not be asked about")
    return " and ".join(parts)

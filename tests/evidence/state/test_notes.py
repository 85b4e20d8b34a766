"""An event that only notes something: a new kind of it is written in one file, and every reader passes it on."""

from __future__ import annotations

from typing import Any, cast

from foregate.evidence.state.plan import PlanState
from foregate.evidence.state.session import SessionState
from foregate.schemas.event import GENESIS, Body, Event
from foregate.schemas.event_body import NoteBody
from foregate.telemetry.export.fold import TrajectoryFold
from foregate.telemetry.queries.agreement import AgreementChecker
from foregate.telemetry.queries.invariants import InvariantChecker
from foregate.telemetry.queries.texts import list_texts
from foregate.telemetry.queries.used_blobs import list_blobs


class Remarked(NoteBody, frozen=True, kw_only=True, tag="remarked"):
    """A remark, as a later version might record it."""

    text: str


def remark() -> Event:
    """Return an event of a kind that no reader knows."""
    place: dict[str, Any] = {"session": "s", "time": "2026-11-29T12:00:00Z", "policy": "", "prev": GENESIS, "hash": "h"}
    return Event(v=1, foregate="9", seq=1, actor="runner", body=cast(Body, Remarked(text="so far so good")), **place)


def test_readers_that_decide_by_kind_pass_on_a_note_of_a_kind_they_do_not_know() -> None:
    event, state, plan, fold = remark(), SessionState(), PlanState(), TrajectoryFold()
    for reader in (state, plan, fold):
        reader.apply(event)
    assert (state.seq, state.messages, plan.steps) == (1, [], {})
    assert not [*InvariantChecker().check_event(event), *AgreementChecker().check_event(event)]
    assert not [*list_texts(event), *list_blobs(event)]

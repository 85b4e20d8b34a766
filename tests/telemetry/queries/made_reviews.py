"""Rulings, labels and queues for the tests of what reads them."""

from __future__ import annotations

from typing import Any

from foregate.schemas.event import GENESIS, Draft, Event
from foregate.schemas.identity import Identity
from foregate.schemas.review import AnyReviewBody, DecisionLabelled, Label, RuledCall
from foregate.telemetry.log import chain
from foregate.telemetry.queries.reviews import Reviews
from foregate.telemetry.queries.rulings import RulingRow

NOW = "2026-01-01T00:00:00.000000Z"
HEAD = "9:" + "0" * 64


def ruled(number: int, session: str = "s") -> RuledCall:
    """Return a ruling of its own for each number."""
    return RuledCall(session, number, "evidence", f"c{number}.1", f"{number:064}", f"{number:08}")


def row(number: int, *, risk: int = 0, standing: str = "hold", **more: Any) -> RulingRow:
    """Return a ruling with what it is chosen by."""
    usual = {"time": NOW, "code": "stale_evidence", "mode": "enforce", "tool": "edit_file"}
    return RulingRow(
        **{"ruled": ruled(number), "is_verdict": True, "risk": risk, "standing": standing, **usual, **more}
    )


def label(number: int, word: Label, by: str = "ann", **more: Any) -> DecisionLabelled:
    """Return a label of the ruling of a number."""
    return DecisionLabelled(ruled=ruled(number), head=HEAD, label=word, by=Identity(by), **more)


def fold(*bodies: AnyReviewBody) -> Reviews:
    """Return what a review log of these says."""
    sealed = chain.seal_drafts(
        [Draft(body, "person") for body in bodies], session="reviews", after=0, prev=GENESIS, policy="", time=NOW
    )
    reviews = Reviews()
    for event, text in sealed:
        read: Event = chain.read_line(text, event.hash)
        assert read == event
        reviews.apply(read)
    return reviews

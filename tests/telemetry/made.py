"""Small events for the tests of what reads them."""

from __future__ import annotations

from foregate.schemas.event import GENESIS, Body, Draft, Event
from foregate.schemas.event_body import Checkpoint, Status, UserMessage
from foregate.telemetry.log import chain
from tests.events import task_ended

NOW = "2026-01-01T00:00:00.000000Z"
CHECKPOINT = Draft(Checkpoint(undo="c1.1", steps=()), "foregate")


def said(text: str) -> Draft:
    """Return a message of the user."""
    return Draft(UserMessage(text=text), "user")


def ended(status: Status = "completed", note: str = "") -> Draft:
    """Return the end of a task in which nothing was done."""
    return Draft(task_ended(status=status, note=note), "foregate")


def sealed(*drafts: Draft, after: int = 0, time: str = NOW) -> list[Event]:
    """Return the events a log makes of drafts."""
    found = chain.seal_drafts(drafts, session="s", after=after, prev=GENESIS, policy="p", time=time)
    return [event for event, _ in found]


def event(body: Body, seq: int = 1) -> Event:
    """Return an event of session `s` with this number and body, in no chain."""
    return Event(1, "", seq, "s", "", "foregate", "", "", body, "")

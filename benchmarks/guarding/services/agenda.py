"""The user's own calendar."""

from __future__ import annotations

from collections.abc import Sequence

import foregate
from foregate.agent.tools.tool import Tool
from guarding.services.journal import Journal, Row, select_rows


def agenda_tools(events: tuple[Row, ...], journal: Journal) -> Sequence[Tool]:
    """Return tools that list, add and delete events, and that invite somebody to one."""
    numbered = tuple({"id": f"event-{number}", **event} for number, event in enumerate(events, 1))

    @foregate.tool(read_only=True, own=["id", "date", "time"])
    def list_events(about: str = "") -> list[Row]:
        """Return the events of the calendar that hold all of some words, all events where none are given."""
        return select_rows(numbered, about)

    @foregate.tool(effect="create", external=False, reversible=True, texts=["title"])
    def add_event(title: str, date: str, time: str, place: str = "") -> str:
        """Put an event into the calendar.

        Args:
            title: What it is.
            date: The day, as in 2027-03-14.
            time: When it begins, as in 14:30.
            place: Where it is.
        """
        return journal.add("events", title, date, time, place)

    @foregate.tool(effect="delete", external=False, reversible=False, targets={"event": "other"})
    def delete_event(event: str) -> str:
        """Delete an event for good, by its id."""
        return journal.add("deleted", event)

    @foregate.tool(effect="send", external=True, reversible=False, targets={"guest": "message", "event": "other"})
    def invite(guest: str, event: str) -> str:
        """Invite somebody to an event, by its id; the guest gets a mail."""
        return journal.add("invited", guest, event)

    return (list_events, add_event, delete_event, invite)

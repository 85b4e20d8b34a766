"""What a reader needs of a log: rows to verify, events one by one, and the head noted apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from foregate.schemas.event import Event
from foregate.schemas.event_body import Kind


class Readable(Protocol):
    """A log as audit reads it, in the calling thread and without a lease. All raise LogError for an unknown session."""

    def lines(self, session: str) -> Iterator[tuple[int, str, str]]:
        """Yield (number, canonical text, hash) of each durable event as stored."""

    def events(self, session: str, *, after: int = 0, until: int = 0, kinds: Sequence[Kind] = ()) -> Iterator[Event]:
        """Yield durable events after a number, up to another unless that is 0, of some kinds or of all, in order.

        Unverified.
        """

    def head_anchor(self, session: str) -> tuple[int, str]:
        """Return number and hash of the last event as the log noted it apart from the events."""

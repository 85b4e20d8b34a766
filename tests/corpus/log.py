"""A recorded log as Foregate reads one, event by event and back into bytes; part of what is adapted to new names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from foregate.evidence.state.recorded_turns import RecordedTurn, read_judged_turns
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, LogError
from foregate.schemas.event import Event
from foregate.schemas.protocols import Blobs, Erasure
from foregate.telemetry.log import chain
from foregate.telemetry.log.memory_log import MemoryBlobs
from tests.corpus.archive import Recorded, Row, read_blobs


class Log:
    """A recorded log as Foregate reads one; `name` is the recording's."""

    def __init__(self, found: Recorded) -> None:
        self.name, self._found = found.name, found
        self._events: dict[str, list[Event]] = {}

    @property
    def sessions(self) -> list[str]:
        """The names of the sessions, a parent before its children."""
        return list(self._found.sessions)

    @property
    def blobs(self) -> Blobs:
        """The stored bytes that events refer to."""
        return StoredBlobs()

    def lines(self, session: str) -> Iterator[Row]:
        """Yield number, canonical text and hash of each event."""
        yield from self._found.sessions[session]

    def events(self, session: str, *, after: int = 0, until: int = 0, kinds: Sequence[str] = ()) -> Iterator[Event]:
        """Yield events after a number, up to another, of some kinds or of all."""
        if session not in self._events:
            self._events[session] = [_event(*row) for row in self.lines(session)]
        found = self._events[session][max(after, 0) : until or None]
        yield from (event for event in found if not kinds or event.kind in kinds)

    def list_erased(self, session: str) -> dict[int, Erasure]:
        """Return the events that were erased: none."""
        return {}

    def head_anchor(self, session: str) -> tuple[int, str]:
        """Return number and hash of the last event as noted apart."""
        return self._found.heads[session]


class StoredBlobs(MemoryBlobs):
    """The stored bytes that the events of all recordings refer to."""

    def get(self, hash: str) -> bytes:  # noqa: A002
        """Return the bytes; raise LogError when there are none of that name."""
        found = read_blobs().get(hash)
        return found if found is not None else super().get(hash)


def read_event(text: str, stored: str) -> Event:
    """Return the event a stored line holds."""
    return chain.read_line(text, stored)


def _event(seq: int, text: str, stored: str) -> Event:
    """Return an event as a store gives one; raise LogError for one that cannot be read."""
    try:
        return read_event(text, stored)
    except InvalidJson as error:
        raise LogError(f"event {seq} cannot be read: {error}") from None


def write_event(event: Event) -> bytes:
    """Return the bytes of an event as the log would hash them."""
    return chain.encode_event(event)


def canonical(value: Any) -> bytes:
    """Return JSON as the log writes it."""
    return strict_json.encode_record(value)


def turns_of(log: Log) -> Iterator[RecordedTurn]:
    """Yield the judged turns of a log."""
    for session in log.sessions:
        yield from read_judged_turns(log.events(session))


def lines(values: Iterable[Any]) -> str:
    """Return JSON values a line each, with their keys in order."""
    return text(json.dumps(value, ensure_ascii=True, sort_keys=True) for value in values)


def text(found: Iterable[str]) -> str:
    """Return lines as one text; what is no text of ours is made ASCII."""
    return "".join(f"{line}\n".encode("ascii", "backslashreplace").decode() for line in found)

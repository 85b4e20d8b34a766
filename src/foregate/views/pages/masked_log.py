"""A session of a log with secrets masked: its events as others may see them, and which of them are not as recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from foregate.schemas.errors import InvalidJson, LogError
from foregate.schemas.event import Event
from foregate.schemas.event_body import Kind
from foregate.schemas.protocols import Erasure, Readable
from foregate.telemetry.export.hiding import collect_patterns, mask_event
from foregate.telemetry.log.chain import encode_event, read_line
from foregate.telemetry.log.masking import Hidden, mask_text

_REMEMBERED = 2_000


class MaskedLog:
    """Reads a log as `Readable` does, masked by `patterns` and by those the session itself was recorded under."""

    def __init__(self, log: Readable, session: str, patterns: Hidden = ()) -> None:
        self._log, self._masked = log, dict[int, Event]()
        self.patterns = collect_patterns(log.events(session, kinds=("session_started", "policy_changed")), patterns)

    def hide(self, text: str) -> str:
        """Return a text with what is to be masked in it masked."""
        return mask_text(text, self.patterns)

    def lines(self, session: str) -> Iterator[tuple[int, str, str]]:
        """Yield the events as stored, unmasked: for verification only."""
        return self._log.lines(session)

    def events(self, session: str, *, after: int = 0, until: int = 0, kinds: Sequence[Kind] = ()) -> Iterator[Event]:
        """Yield the events masked; their hashes are the recorded ones."""
        for event in self._log.events(session, after=after, until=until, kinds=kinds):
            yield self._mask_event(event)

    def _mask_event(self, event: Event) -> Event:
        """Return an event masked; the last ones are remembered, as each decision is explained by events near it."""
        found = self._masked.get(event.seq)
        if found is None or found.hash != event.hash:
            found = self._masked[event.seq] = mask_event(event, self.patterns)
            if len(self._masked) > _REMEMBERED:
                del self._masked[next(iter(self._masked))]
        return found

    def head_anchor(self, session: str) -> tuple[int, str]:
        """Return number and hash of the last event."""
        return self._log.head_anchor(session)

    def list_erased(self, session: str) -> Mapping[int, Erasure]:
        """Return which events were erased."""
        return self._log.list_erased(session)

    def read_texts(self, session: str) -> Iterator[tuple[int, str, str, str]]:
        """Yield number, text, hash and state of each event: `` as recorded, `masked`, or `erased` without a text.

        The text of a masked event is that of what is left of it, and its hash that of the recorded one.
        """
        for seq, text, hash_ in self._log.lines(session):
            shown, state = text, "" if text else "erased"
            if text and self.patterns:
                event = _read_line(seq, text, hash_)
                masked = mask_event(event, self.patterns)
                if masked is not event:
                    shown, state = encode_event(masked).decode("utf-8"), "masked"
            yield seq, shown, hash_, state


def _read_line(seq: int, text: str, hash_: str) -> Event:
    try:
        return read_line(text, hash_)
    except InvalidJson as error:
        why = f"event {seq} cannot be read ({error})"
        raise LogError(f"{why}; `foregate audit verify` tells what was changed") from None

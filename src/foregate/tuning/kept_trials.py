"""What trials of other values come to in each piece of sessions, stored as it is found and summed up."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter

import msgspec

from foregate.audit.kept_pieces import Head, KeptPieces
from foregate.audit.pieces import SessionPiece
from foregate.tuning.trial_judge import TrialCounts

_QUESTION = "trials"
"""The question to which what is stored of a piece answers: the counts of each trial in it, by the trial's number."""
_PIECES_PER_WRITE = 64
_STORED = msgspec.msgpack.Decoder(dict[int, TrialCounts | None], dec_hook=lambda kind, value: kind(value))


class KeptTrials:
    """What is known of the trials of all `pieces` of sessions with these heads.

    A store that cannot be written costs nothing but the work of finding it again.
    """

    def __init__(self, store: KeptPieces, heads: Mapping[str, Head], pieces: Sequence[SessionPiece]) -> None:
        self._store, self._heads, self._written = store, heads, 0
        self._known: dict[SessionPiece, dict[int, TrialCounts | None]] = {piece: {} for piece in pieces}
        for session, own in groupby(pieces, attrgetter("session")):
            bodies, _ = store.read(_QUESTION, session, heads[session])
            for piece, body in zip(own, bodies, strict=False):
                with suppress(msgspec.MsgspecError):
                    self._known[piece] = _STORED.decode(body)

    def find_new(self, piece: SessionPiece, numbers: Collection[int]) -> set[int]:
        """Return the numbers of the trials of which nothing is known in a piece."""
        return set(numbers).difference(self._known[piece])

    def add(self, piece: SessionPiece, numbers: Collection[int], counts: Mapping[int, TrialCounts]) -> None:
        """Keep the counts of trials in a piece, those among them that count nothing."""
        known = self._known[piece]
        known.update(dict.fromkeys(numbers))
        known.update({number: one for number, one in counts.items() if not one.is_empty})
        with suppress(sqlite3.DatabaseError, OverflowError):
            self._store.keep(_QUESTION, piece, self._heads[piece.session], msgspec.msgpack.encode(known))
        self._written += 1
        if self._written % _PIECES_PER_WRITE == 0:
            self.commit()

    def commit(self) -> None:
        """Write what was kept."""
        with suppress(sqlite3.DatabaseError):
            self._store.commit()

    def sum_up(self, numbers: Collection[int], pieces: Sequence[SessionPiece]) -> dict[int, TrialCounts]:
        """Return the counts of trials over pieces, of each session up to its first divergence."""
        found: dict[int, TrialCounts] = {}
        for _, own in groupby(pieces, attrgetter("session")):
            over = set[int]()
            for piece in own:
                known = self._known[piece]
                for number in numbers:
                    counts = known.get(number)
                    if counts is not None and number not in over:
                        found.setdefault(number, TrialCounts()).add(counts)
                        over.update([number] if counts.sessions else [])
        return found

"""What trials of other values come to in each piece of sessions, kept as it is found and summed up."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter

import msgspec

from foregate.audit.kept_pieces import Head, KeptPieces
from foregate.audit.lever_trials import KeptCounts, Trial, TrialCounts
from foregate.audit.pieces import SessionPiece
from foregate.schemas import strict_json

_ASKED = "trials"
"""The question to which what is kept of a piece answers: by the number of each trial, what it comes to there."""
_AT_ONCE = 64
"""Pieces that are written in one transaction."""
_PAGES = msgspec.msgpack.Decoder(dict[int, KeptCounts | None])


class KeptTrials:
    """What is known of the trials of all `pieces` of sessions with these heads, kept with what else is kept of them.

    A trial stands under its number in `numbers`. A file that cannot be written costs nothing but the work of finding it
    again.
    """

    def __init__(self, kept: KeptPieces, heads: Mapping[str, Head], pieces: Sequence[SessionPiece]) -> None:
        self._kept, self._heads, self._written, self._is_kept = kept, heads, 0, True
        self._numbers: dict[str, int] = {}
        self._known: dict[SessionPiece, dict[int, KeptCounts | None]] = {piece: {} for piece in pieces}
        for session, own in groupby(pieces, attrgetter("session")):
            bodies, _ = kept.read(_ASKED, session, heads[session])
            for piece, body in zip(own, bodies, strict=False):
                with suppress(msgspec.MsgspecError):
                    self._known[piece] = _PAGES.decode(body)

    def number(self, trials: Sequence[Trial]) -> list[int]:
        """Return the numbers under which trials are kept."""
        names = [strict_json.canonical([list(path), value]).decode() for path, value in trials]
        new = [name for name in names if name not in self._numbers]
        try:
            found = self._kept.number(new)
        except sqlite3.DatabaseError:
            found, self._is_kept = (
                [-1 - place for place in range(len(self._numbers), len(self._numbers) + len(new))],
                False,
            )
        self._numbers.update(zip(new, found, strict=True))
        return [self._numbers[name] for name in names]

    def find_new(self, piece: SessionPiece, numbers: Collection[int]) -> set[int]:
        """Return the numbers of the trials of which nothing is known in a piece."""
        return set(numbers).difference(self._known[piece])

    def add(self, piece: SessionPiece, numbers: Collection[int], counts: Mapping[int, TrialCounts]) -> None:
        """Keep what trials come to in a piece, those among them that count nothing."""
        known = self._known[piece]
        known.update({one: counts[one].keep() if one in counts else None for one in numbers})
        with suppress(sqlite3.DatabaseError, OverflowError):
            if self._is_kept:
                self._kept.keep(_ASKED, piece, self._heads[piece.session], msgspec.msgpack.encode(known))
        self._written += 1
        if self._written % _AT_ONCE == 0:
            self.commit()

    def commit(self) -> None:
        """Write what was kept."""
        with suppress(sqlite3.DatabaseError):
            self._kept.commit()

    def sum_up(self, numbers: Collection[int], pieces: Sequence[SessionPiece]) -> dict[int, TrialCounts]:
        """Return what trials come to in pieces, of each session up to its first divergence."""
        found: dict[int, TrialCounts] = {}
        over, session = set[int](), ""
        for piece in pieces:
            if piece.session != session:
                over, session = set(), piece.session
            known = self._known[piece]
            for number in numbers:
                counts = known.get(number)
                if counts is not None and number not in over:
                    found.setdefault(number, TrialCounts()).add(counts)
                    if counts.sessions:
                        over.add(number)
        return found

"""What trials of other values come to in each piece of sessions, kept as it is found and summed up."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import msgspec

from foregate.audit.kept_pieces import Head, KeptPieces
from foregate.audit.lever_trials import KeptCounts, Trial, TrialCounts
from foregate.audit.pieces import SessionPiece, split_session
from foregate.schemas import strict_json
from foregate.schemas.protocols import Readable

_ASKED = "trials"
"""The question to which what is kept of a piece answers: by the trial, what it comes to there."""
_AT_ONCE = 64
"""Pieces that are written in one transaction."""
_PAGES = msgspec.msgpack.Decoder(dict[str, KeptCounts | None])


class KeptTrials:
    """What is known of the trials of all `pieces` of sessions with these heads, kept with what else is kept of them.

    A file that cannot be written costs nothing but the work of finding it again.
    """

    def __init__(self, log: Readable, kept: KeptPieces, heads: Mapping[str, Head]) -> None:
        self._kept, self._heads, self._written = kept, heads, 0
        self.pieces = [piece for session in heads for piece in split_session(log, session)]
        self._known: dict[SessionPiece, dict[str, KeptCounts | None]] = {piece: {} for piece in self.pieces}
        for session in heads:
            bodies, _ = kept.read(_ASKED, session, self._heads[session])
            own = (piece for piece in self.pieces if piece.session == session) if bodies else ()
            for piece, body in zip(own, bodies, strict=False):
                with suppress(msgspec.MsgspecError):
                    self._known[piece] = _PAGES.decode(body)

    def find_new(self, piece: SessionPiece, trials: Sequence[Trial]) -> list[int]:
        """Return the numbers of the trials of which nothing is known in a piece."""
        known = self._known[piece]
        return [number for number, name in enumerate(map(name_trial, trials)) if name not in known]

    def add(
        self,
        piece: SessionPiece,
        trials: Sequence[Trial],
        numbers: Collection[int],
        counts: Mapping[int, TrialCounts],
    ) -> None:
        """Keep what trials come to in a piece, those among them that count nothing."""
        known = self._known[piece]
        known.update({name_trial(trials[one]): counts[one].keep() if one in counts else None for one in numbers})
        with suppress(sqlite3.DatabaseError, OverflowError):
            self._kept.keep(_ASKED, piece, self._heads[piece.session], msgspec.msgpack.encode(known))
        self._written += 1
        if self._written % _AT_ONCE == 0:
            self.commit()

    def commit(self) -> None:
        """Write what was kept."""
        with suppress(sqlite3.DatabaseError):
            self._kept.commit()

    def sum_up(self, trials: Sequence[Trial]) -> dict[int, TrialCounts]:
        """Return what trials come to in all sessions, each up to its first divergence."""
        found: dict[int, TrialCounts] = {}
        names = [name_trial(one) for one in trials]
        over, session = set[int](), ""
        for piece in self.pieces:
            if piece.session != session:
                over, session = set(), piece.session
            known = self._known[piece]
            for number, name in enumerate(names):
                counts = known.get(name)
                if counts is not None and number not in over:
                    found.setdefault(number, TrialCounts()).add(counts)
                    if counts.sessions:
                        over.add(number)
        return found


def name_trial(trial: Trial) -> str:
    """Return a text that tells a trial from every other."""
    path, value = trial
    return strict_json.canonical([list(path), value]).decode()

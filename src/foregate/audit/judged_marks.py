"""Which turns of a log were judged again before and came out as recorded, under the log's key.

A mark names a piece of a session by the hash of its last event, which the chain binds to every byte before it. So a
mark stands for what judging these very events again would find; it never stands for walking the chain, which tells
whether the events are these.
"""

from __future__ import annotations

import hmac
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import msgspec
from msgspec import Struct

from foregate.assembly.audit_index import find_index_path
from foregate.audit import pieces as cut  # how many events a piece has is said there alone
from foregate.audit.piece_store import NAME, PieceStore, Warn, hash_code
from foregate.audit.pieces import SessionPiece
from foregate.schemas import strict_json
from foregate.schemas.errors import LogError
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.snapshots import make_key, read_key
from foregate.telemetry.log.sqlite_log import SqliteLog

_ASKED = "judged"
"""The question to which what is kept of a piece answers: how many of its turns came out as recorded."""


class JudgedCounts(Struct, frozen=True, array_like=True):
    """How many turns of a piece were judged, and how many of another version came out otherwise, by version."""

    turns: dict[str, int]
    otherwise: dict[str, int]


class _Mark(Struct, frozen=True, array_like=True):
    code: bytes
    counts: JudgedCounts


_MARKS = msgspec.msgpack.Decoder(_Mark)


class JudgedMarks:
    """The marks of a log that its `key` has signed. With `anew` none that was kept counts."""

    def __init__(self, kept: PieceStore, key: bytes, *, anew: bool = False) -> None:
        self._kept, self._key, self._anew = kept, key, anew

    def find(self, session: str, walked: Mapping[int, str]) -> dict[int, JudgedCounts]:
        """Return what is known of the pieces of a session, by the event behind which each begins.

        `walked` are the hashes of events as walking the chain found them, the last event's among them: what the file
        says of its own marks counts for nothing.
        """
        found, last = dict[int, JudgedCounts](), max(walked)
        bodies = self._kept.read(_ASKED, session, (last, walked[last]))[0] if not self._anew else []
        for number, body in enumerate(bodies):
            after, until = number * cut.EVENTS_PER_PIECE, min((number + 1) * cut.EVENTS_PER_PIECE, last)
            with suppress(msgspec.MsgspecError):
                mark = _MARKS.decode(body)
                wanted = self._sign(session, after, until, walked.get(until, ""), mark.counts)
                if until in walked and hmac.compare_digest(mark.code, wanted):
                    found[after] = mark.counts
        return found

    def keep(self, piece: SessionPiece, walked: Mapping[int, str], counts: JudgedCounts) -> None:
        """Keep that the turns of a piece came out as recorded, if the chain was walked to its last event."""
        if piece.until in walked:
            last = max(walked)
            code = self._sign(piece.session, piece.after, piece.until, walked[piece.until], counts)
            body = msgspec.msgpack.encode(_Mark(code, counts))
            with suppress(sqlite3.DatabaseError):
                self._kept.keep(_ASKED, piece, (last, walked[last]), body)

    def commit(self) -> None:
        """Write what was kept."""
        with suppress(sqlite3.DatabaseError):
            self._kept.commit()

    def _sign(self, session: str, after: int, until: int, hash_: str, counts: JudgedCounts) -> bytes:
        about: Json = [_ASKED, hash_code(), session, after, until, hash_, counts.turns, counts.otherwise]
        return hmac.new(self._key, b"judged again\0" + strict_json.canonical(about), "sha256").digest()


@contextmanager
def open_judged_marks(log: SqliteLog, *, anew: bool, warn: Warn = lambda why: None) -> Iterator[JudgedMarks | None]:
    """Yield the marks of a home's log, None where there can be none: all is judged, and `warn` is told why."""
    beside = find_index_path(log.path.parent, keeps_out=log.read_only)
    try:
        key = read_key(log.path) or (b"" if log.read_only else make_key(log.path))
        kept = PieceStore(log, beside.with_name(NAME), warn) if beside is not None and key else None
    except (OSError, sqlite3.Error, LogError) as error:
        warn(f"every turn is judged again, and that is not kept ({str(error)[:200]})")
        kept = None
    try:
        yield JudgedMarks(kept, key, anew=anew) if kept is not None else None
    finally:
        if kept is not None:
            kept.close()

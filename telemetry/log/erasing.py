"""Erasing what the events of a session say, so that the chain goes on by their hashes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from foregate.schemas.errors import SessionErased
from foregate.schemas.protocols import Erasure
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.snapshots import forget_snapshots

_ALL = f"""SELECT seq FROM events WHERE session = :session AND text != '' AND NOT (
  seq = (SELECT max(seq) FROM events WHERE session = :session) AND coalesce({sqlite_file.KIND}, '') = 'session_ended')
  AND (:kinds = '[]' OR {sqlite_file.KIND} IN (SELECT value FROM json_each(:kinds)))
  AND (:seqs IS NULL OR seq IN (SELECT value FROM json_each(:seqs)))"""  # noqa: S608
"""All that say something, but an event that ends the session: it holds nothing but their number, and proves it.

Where `:kinds` names some, only events of those; where `:seqs` does, only events of these numbers."""
_ERASE = (
    f"""INSERT INTO erased (session, seq, at, "by", why)
  SELECT :session, seq, :at, :by, :why FROM ({_ALL})""",  # noqa: S608
    "UPDATE events SET text = '' WHERE session = :session AND seq IN (SELECT seq FROM erased WHERE session = :session)",
    "DELETE FROM questions WHERE session = :session",
)
_UNUSED = "DELETE FROM parts WHERE hash = ? AND NOT EXISTS (SELECT 1 FROM cuts WHERE cuts.hash = parts.hash)"


_MINE = "session = :session AND seq IN (SELECT seq FROM erased WHERE session = :session)"


def erase_session(
    connection: sqlite3.Connection,
    path: Path,
    session: str,
    erasure: Erasure,
    kinds: Sequence[str] = (),
    seqs: Sequence[int] | None = None,
) -> int:
    """Erase the texts of a session's events in one write transaction; return how many.

    All, or those of some kinds, or of some numbers where `seqs` names them.

    What it takes away is overwritten in the file, as on every connection that writes here. It is gone from the file
    beside it, too, unless somebody reads the log just then.
    """
    values: dict[str, str | None] = {"session": session, "at": erasure.at, "by": erasure.by, "why": erasure.why}
    values["kinds"] = json.dumps(list(kinds))
    values["seqs"] = None if seqs is None else json.dumps(list(seqs))
    with sqlite_file.write_transaction(connection, path):
        erased = connection.execute(_ERASE[0], values).rowcount
        for statement in _ERASE[1:]:
            connection.execute(statement, values)
        used = connection.execute(f"SELECT DISTINCT hash FROM cuts WHERE {_MINE}", values).fetchall()  # noqa: S608
        connection.execute(f"DELETE FROM cuts WHERE {_MINE}", values)  # noqa: S608
        # A part is stored once for all sessions: one that another event uses stays.
        connection.executemany(_UNUSED, used)
        forget_snapshots(connection, session)
    # The file beside the log holds what was erased until it is emptied.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return erased


def build_erased_error(session: str, erasure: Erasure) -> SessionErased:
    """Return the error for a session that cannot be read or resumed, since what it says was erased."""
    who = f"by {erasure.by or 'somebody'} at {erasure.at} ({erasure.why or 'no reason given'})"
    return SessionErased(
        f"session `{session}` was erased {who}; `foregate audit verify` still proves its events by hash"
    )

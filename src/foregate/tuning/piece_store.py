"""What was found of pieces of sessions, kept beside the log by what was asked: it can be found anew at any time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from foregate.schemas import version
from foregate.schemas.errors import LogError
from foregate.schemas.protocols import Readable
from foregate.telemetry.log.sqlite_file import PATIENCE, overwrite_deleted, retry_while_busy
from foregate.telemetry.log.sqlite_log import SqliteLog

# How many events a piece has is said there alone.
from foregate.tuning import pieces as cut
from foregate.tuning.pieces import SessionPiece, split_session

NAME = "tuning.db"
"""The file's name, beside the audit index."""
_TABLES = (
    "CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE asked (name TEXT PRIMARY KEY, used INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    """CREATE TABLE pages (name TEXT NOT NULL, session TEXT NOT NULL, after INTEGER NOT NULL, seq INTEGER NOT NULL,
  hash TEXT NOT NULL, sum TEXT NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (name, session, after)) STRICT, WITHOUT ROWID""",
    "CREATE TABLE numbers (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT",
    """CREATE TABLE frames (policy TEXT NOT NULL, layers TEXT NOT NULL, value TEXT NOT NULL, said TEXT NOT NULL,
  PRIMARY KEY (policy, layers)) STRICT, WITHOUT ROWID""",
)
MOST_ASKED = 16
"""Questions with a limited life whose answers are stored: those that were asked last."""
_READ_BY = ("evidence", "gates", "policy", "schemas", "audit", "telemetry", "tuning")
Warn = Callable[[str], object]
Head = tuple[int, str]
"""Number and hash of a session's last event."""


@cache
def hash_code() -> str:
    """Return one hash over the code that judges and the shipped policies: what others found is found again."""
    found = sha256()
    home = Path(version.__file__).parent.parent
    for name in _READ_BY:
        for path in sorted((home / name).rglob("*")):
            if path.suffix in (".py", ".yaml"):
                found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


class PieceStore:
    """What is kept of the sessions of `log` in the file at `path`, or in memory with None. Close it when done.

    It holds nothing that does not follow from the log: it may be deleted at any time. A file of another version of
    Foregate, or a damaged one, is made anew, and `warn` is told so. What cannot be read counts as not there.
    """

    def __init__(self, log: Readable, path: Path | None, warn: Warn = lambda why: None) -> None:
        self._log, self._path, self._warn = log, path, warn
        self.connection = self._open()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._open_file()
        except sqlite3.OperationalError:
            # It is locked, or its folder cannot be written.
            raise
        except sqlite3.DatabaseError:
            self._warn(f"{self._path} is damaged, so what it kept is found anew")
        if self._path is not None:
            for end in ("", "-wal", "-shm", "-journal"):
                self._path.with_name(self._path.name + end).unlink(missing_ok=True)
        return self._open_file()

    def _open_file(self) -> sqlite3.Connection:
        path = self._path or Path(":memory:")
        if self._path is not None:
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "synchronous=NORMAL"):
                connection.execute(f"PRAGMA {pragma}")
            overwrite_deleted(connection)
            self._begin_anew(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin_anew(self, connection: sqlite3.Connection) -> None:
        """Empty a file that other code has written, or that tells what was erased since."""
        erased = self._log.count_erased() if isinstance(self._log, SqliteLog) else 0
        wanted = {"code": hash_code(), "erased": str(erased)}
        retry_while_busy(self._path or Path(), lambda: connection.execute("BEGIN IMMEDIATE"))
        rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        known = {sql for _, sql in rows} == set(_TABLES)
        if not known or dict(connection.execute("SELECT name, value FROM notes")) != wanted:
            if rows:
                self._warn(
                    f"{self._path} was written by another version or before an erasure: its contents are found anew"
                )
            for name, _ in rows:
                connection.execute(f'DROP TABLE IF EXISTS "{name}"')
            for table in _TABLES:
                connection.execute(table)
            connection.executemany("INSERT INTO notes VALUES (?, ?)", wanted.items())
        connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file; doing it twice is harmless."""
        self.connection.close()

    def ask(self, name: str) -> None:
        """Note that a question is asked; what was kept for those that were not asked for long goes."""
        with suppress(sqlite3.DatabaseError):
            self._begin()
            self.connection.execute(
                "INSERT OR REPLACE INTO asked SELECT ?, coalesce(max(used), 0) + 1 FROM asked", (name,)
            )
            old = self.connection.execute(
                "SELECT name FROM asked ORDER BY used DESC LIMIT -1 OFFSET ?", (MOST_ASKED,)
            ).fetchall()
            self.connection.executemany("DELETE FROM pages WHERE name = ?", old)
            self.connection.executemany("DELETE FROM asked WHERE name = ?", old)
            self.commit()

    def number(self, names: Sequence[str]) -> list[int]:
        """Return a number for each of some names, the same each time, that stands for it in what is kept."""
        self._begin()
        self.connection.executemany("INSERT OR IGNORE INTO numbers (name) VALUES (?)", [(name,) for name in names])
        known = dict(self.connection.execute("SELECT name, number FROM numbers").fetchall())
        self.commit()
        return [known[name] for name in names]

    def read(self, name: str, session: str, head: Head) -> tuple[list[bytes], int]:
        """Return what is kept of a session for a question, piece by piece, and the event behind which nothing is.

        A piece counts that is of the history which `head` ends, and has not grown since.
        """
        found, begin = list[bytes](), 0
        with suppress(sqlite3.DatabaseError):
            query = "SELECT after, seq, hash, sum, body FROM pages WHERE name = ? AND session = ? ORDER BY after"
            for after, seq, hash_, sum_, body in self.connection.execute(query, (name, session)).fetchall():
                is_last = (seq, hash_) == head and seq - after <= cut.EVENTS_PER_PIECE
                whole = is_last or (seq == after + cut.EVENTS_PER_PIECE and self._is_of_log(session, seq, hash_, head))
                if after != begin or not whole or sha256(body).hexdigest() != sum_:
                    break
                found.append(body)
                begin = seq
        return found, begin

    def _is_of_log(self, session: str, seq: int, hash_: str, head: Head) -> bool:
        with suppress(LogError):
            events = self._log.events(session, after=seq - 1, until=seq) if 0 < seq < head[0] else ()
            return next((event.hash for event in events), "") == hash_
        return False

    def list_missing(self, name: str, session: str, head: Head) -> Iterator[SessionPiece]:
        """Yield the pieces of a session that are not stored, and forget what is of another history."""
        _, begin = self.read(name, session, head)
        if begin != head[0]:
            self.connection.execute(
                "DELETE FROM pages WHERE name = ? AND session = ? AND after >= ?", (name, session, begin)
            )
            yield from split_session(self._log, session, begin)

    def keep(self, name: str, piece: SessionPiece, head: Head, body: bytes) -> None:
        """Keep what was found of a piece of a session with this head; it is on disk once `commit` returns."""
        seq, hash_ = head
        if piece.until < seq:
            events = self._log.events(piece.session, after=piece.until - 1, until=piece.until)
            seq, hash_ = piece.until, next((event.hash for event in events), "")
        row = (name, piece.session, piece.after, seq, hash_, sha256(body).hexdigest(), body)
        self._begin()
        self.connection.execute("INSERT OR REPLACE INTO pages VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def _begin(self) -> None:
        if not self.connection.in_transaction:
            retry_while_busy(self._path or Path(), lambda: self.connection.execute("BEGIN IMMEDIATE"))

    def commit(self) -> None:
        """Write what was kept."""
        if self.connection.in_transaction:
            self.connection.execute("COMMIT")

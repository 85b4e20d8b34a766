"""The tuning index: what each recorded turn's judgement rests on, kept beside the log and made from it at any time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from foregate.assembly.audit_index import find_index_path
from foregate.audit import pieces as cut  # how many events a piece has is said there alone
from foregate.audit.pieces import (
    UNREADABLE,
    Progress,
    SessionPiece,
    keep_reader,
    read_turns,
    split_session,
    work_on_pieces,
)
from foregate.audit.reach_pages import FrameKey, FrameTexts, PageWriter, ReachPage, read_page
from foregate.gates.replay.reach import ReachReader
from foregate.policy.policy import Policy
from foregate.policy.source.load import restore_policy
from foregate.schemas import strict_json, version
from foregate.schemas.errors import LogError, PolicyError
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import build_catalogue
from foregate.telemetry.audit.rebuild_turn import InForce
from foregate.telemetry.log.sqlite_file import PATIENCE, retry_while_busy
from foregate.telemetry.log.sqlite_log import SqliteLog

_TABLES = (
    "CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    """CREATE TABLE pages (session TEXT NOT NULL, after INTEGER NOT NULL, seq INTEGER NOT NULL, hash TEXT NOT NULL,
  sum TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (session, after)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE frames (policy TEXT NOT NULL, layers TEXT NOT NULL, value TEXT NOT NULL, said TEXT NOT NULL,
  PRIMARY KEY (policy, layers)) STRICT, WITHOUT ROWID""",
)
NAME = "tuning.db"
"""The file's name, beside the audit index."""
_AT_ONCE = 64
"""Pages that are written in one transaction."""
_READ_BY = ("evidence", "gates", "policy", "schemas", "audit", "telemetry")


@cache
def hash_code() -> str:
    """Return one hash over the code that judges: what was found by other code is found again."""
    found = sha256()
    home = Path(version.__file__).parent.parent
    for name in _READ_BY:
        for path in sorted((home / name).rglob("*.py")):
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


@contextmanager
def open_reach_index(
    log: SqliteLog, sessions: Sequence[str], progress: Progress | None = None
) -> Iterator[ReachIndex | None]:
    """Yield the tuning index of a home's log, which has caught up with these sessions; None where there can be none.

    It lies beside the log, or in the person's cache where nothing may be written there.
    """
    beside = find_index_path(log.path.parent, keeps_out=log.read_only)
    try:
        index = ReachIndex(log, beside.with_name(NAME) if beside is not None else None)
    except (OSError, sqlite3.Error):
        yield None
        return
    with closing(index):
        with suppress(sqlite3.Error):  # what is not in it is judged
            index.catch_up(sessions, progress=progress)
        yield index


class Frame(NamedTuple):
    """A policy that turns were judged under, and what was recorded of its layers."""

    policy: Policy
    layers: Mapping[str, Json]


class _Page(NamedTuple):
    after: int
    seq: int
    hash: str


def find_frame_key(holds: InForce, catalogue: str) -> FrameKey:
    """Return under what a turn was judged."""
    return holds.policy_hash, strict_json.digest(holds.layers or {}), catalogue


class PageReader:
    """Makes pages of pieces of sessions."""

    def __init__(self, log: Readable) -> None:
        self._log = log
        self._readers: dict[FrameKey, FrameTexts] = {}

    def __call__(self, piece: SessionPiece) -> tuple[bytes, list[tuple[str, str, str, str]]] | None:
        """Return a page and the frames it names as rows; None for a piece that cannot be read, and is judged whole."""
        page, frames = PageWriter(), list[tuple[str, str, str, str]]()
        holds, key = None, ("", "", "")
        try:
            for turn in read_turns(self._log, piece):
                if turn.in_force is not holds:
                    holds, key = turn.in_force, find_frame_key(turn.in_force, turn.turn.catalogue_hash)
                    if key not in self._readers:
                        policy, catalogue = holds.require()
                        reader = ReachReader(restore_policy(policy), build_catalogue(catalogue))
                        self._readers[key] = FrameTexts(reader)
                        values, said = (strict_json.canonical(what or {}).decode() for what in (policy, holds.layers))
                        frames.append((*key[:2], values, said))
                texts = self._readers[key]
                page.add(turn.seq, turn.turn, key, texts, texts.reader.read(turn.turn, turn.judgement))
        except (*UNREADABLE, LogError, PolicyError):
            return None
        return page.finish(), frames


class ReachIndex:
    """The tuning index of `log` in the file at `path`, or in memory with None. Close it when done.

    It holds nothing that the log does not: it may be deleted at any time. One of another version of Foregate, or a
    damaged one, is made anew; what cannot be read of it counts as not there, and is judged.
    """

    def __init__(self, log: Readable, path: Path | None) -> None:
        self._log, self._path = log, path
        self._connection = self._open()
        self._frames: dict[tuple[str, str], Frame | None] = {}
        self._pages: dict[str, tuple[tuple[int, str], list[ReachPage]]] = {}
        self.unreadable: dict[str, None] = {}
        """The sessions of which something could not be read when the index last caught up, in their order."""

    def _open(self) -> sqlite3.Connection:
        with suppress(sqlite3.DatabaseError):
            return self._open_file()
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
            self._begin_anew(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin_anew(self, connection: sqlite3.Connection) -> None:
        """Empty a file that other code has written, or that tells what was erased since."""
        wanted = {"code": hash_code(), "erased": self._count_erased()}
        retry_while_busy(self._path or Path(), lambda: connection.execute("BEGIN IMMEDIATE"))
        rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        known = {sql for _, sql in rows} == set(_TABLES)
        if not known or dict(connection.execute("SELECT name, value FROM notes")) != wanted:
            for name, _ in rows:
                connection.execute(f'DROP TABLE IF EXISTS "{name}"')
            for table in _TABLES:
                connection.execute(table)
            connection.executemany("INSERT INTO notes VALUES (?, ?)", wanted.items())
        connection.execute("COMMIT")

    def _count_erased(self) -> str:
        return str(self._log.count_erased()) if isinstance(self._log, SqliteLog) else "0"

    def close(self) -> None:
        """Close the index; doing it twice is harmless."""
        self._connection.close()

    def catch_up(
        self,
        sessions: Sequence[str],
        workers: int = 0,
        progress: Progress | None = None,
    ) -> None:
        """Read what was written since of each of these sessions; on all cores where that is worth it.

        `progress` is told how many pieces of sessions are read, and of how many.
        """
        with keep_reader(self._log):
            heads = {session: self._log.head_anchor(session) for session in sessions}
            pieces = [piece for session in sessions for piece in self._list_missing(session, heads[session])]
            events = sum(min(piece.until, heads[piece.session][0]) - piece.after for piece in pieces)
            try:
                found = work_on_pieces(self._log, pieces, events, PageReader, workers)
                for count, (piece, page) in enumerate(found, start=1):
                    if page is not None:
                        self._keep(piece, heads[piece.session], *page)
                    else:
                        self.unreadable[piece.session] = None
                    if count % _AT_ONCE == 0:
                        self._commit()
                    if progress is not None:
                        progress(count, len(pieces))
            finally:
                self._commit()

    def _list_missing(self, session: str, head: tuple[int, str]) -> Iterator[SessionPiece]:
        """Yield the pieces of a session that are not indexed, and forget what is of another history."""
        pages = self._list_pages(session)
        good = list(self._find_good_pages(session, pages, head))
        last = good[-1] if good else _Page(0, 0, "")
        if (last.seq, last.hash) != head:
            until = last.seq if last.seq % cut.CHUNK == 0 else last.after
            if pages and pages[-1].after >= until:
                self._connection.execute("DELETE FROM pages WHERE session = ? AND after >= ?", (session, until))
            yield from (piece for piece in split_session(self._log, session) if piece.after >= until)

    def _list_pages(self, session: str) -> list[_Page]:
        query = "SELECT after, seq, hash FROM pages WHERE session = ? ORDER BY after"
        return list(map(_Page._make, self._connection.execute(query, (session,))))

    def _find_good_pages(self, session: str, pages: Sequence[_Page], head: tuple[int, str]) -> Iterator[_Page]:
        """Yield the pages of a session, first to last, that are of the history its head ends."""
        for number, page in enumerate(pages):
            if page.after != number * cut.CHUNK or not self._is_of_log(session, page, head):
                return
            yield page

    def _is_of_log(self, session: str, page: _Page, head: tuple[int, str]) -> bool:
        if page.seq >= head[0]:
            return (page.seq, page.hash) == head
        with suppress(LogError):
            events = self._log.events(session, after=page.seq - 1, until=page.seq)
            return next((event.hash for event in events), "") == page.hash
        return False

    def _keep(self, piece: SessionPiece, head: tuple[int, str], body: bytes, frames: Sequence[tuple[str, ...]]) -> None:
        seq, hash_ = head
        if piece.until < seq:
            events = self._log.events(piece.session, after=piece.until - 1, until=piece.until)
            seq, hash_ = piece.until, next((event.hash for event in events), "")
        row = (piece.session, piece.after, seq, hash_, sha256(body).hexdigest(), body)
        if not self._connection.in_transaction:
            retry_while_busy(self._path or Path(), lambda: self._connection.execute("BEGIN IMMEDIATE"))
        self._connection.execute("INSERT OR REPLACE INTO pages VALUES (?, ?, ?, ?, ?, ?)", row)
        if frames:
            self._connection.executemany("INSERT OR IGNORE INTO frames VALUES (?, ?, ?, ?)", frames)

    def _commit(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")

    def find_pages(self, session: str) -> list[ReachPage] | None:
        """Return what is known of a session, in order; None where that is not all of it, or cannot be read."""
        with suppress(sqlite3.DatabaseError, ValueError):
            head = self._log.head_anchor(session)
            if session in self._pages and self._pages[session][0] == head:
                return self._pages[session][1]
            query = "SELECT after, seq, hash, sum, body FROM pages WHERE session = ? ORDER BY after"
            rows = self._connection.execute(query, (session,)).fetchall()
            whole = [place for place, *_ in rows] == list(range(0, max(head[0], 1), cut.CHUNK))
            if whole and rows and tuple(rows[-1][1:3]) == head and all(sha256(r[4]).hexdigest() == r[3] for r in rows):
                pages = [read_page(row[4]) for row in rows]
                known = all(self.find_frame(frame.key) is not None for page in pages for frame in page.frames)
                if known:
                    self._pages[session] = head, pages
                return pages if known else None
        return None

    def find_frame(self, key: FrameKey) -> Frame | None:
        """Return what turns were judged under, None where it is not known or is not what its hashes say."""
        name = key[:2]
        if name not in self._frames:
            self._frames[name] = self._read_frame(*name)
        return self._frames[name]

    def get_frame(self, key: FrameKey) -> Frame:
        """Return what the turns of a page that was found were judged under."""
        frame = self.find_frame(key)
        assert frame is not None, "a page whose frames are not known counts as none"
        return frame

    def _read_frame(self, policy: str, layers: str) -> Frame | None:
        query = "SELECT value, said FROM frames WHERE policy = ? AND layers = ?"
        with suppress(sqlite3.DatabaseError, ValueError, PolicyError, LookupError):
            for value, said in self._connection.execute(query, (policy, layers)):
                if [strict_json.sha256(text.encode()) for text in (value, said)] == [policy, layers]:
                    return Frame(restore_policy(msgspec.json.decode(value)), msgspec.json.decode(said))
        return None

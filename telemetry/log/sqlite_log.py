"""The log in one SQLite file that several processes may share; each session is written by one of them."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from foregate.schemas.errors import LogError, SessionHeld, TamperedLog
from foregate.schemas.event import GENESIS, Draft, Event
from foregate.schemas.protocols import Erasure, Lease, Snapshot
from foregate.telemetry.diagnostics import get_diagnostics
from foregate.telemetry.holder import LeaseHolder, get_own_holder
from foregate.telemetry.log import chain, parts, sqlite_file
from foregate.telemetry.log.erasing import build_erased_error, erase_session
from foregate.telemetry.log.group_commit import BACKLOG, Cut, GroupCommit, Row, SessionQueue
from foregate.telemetry.log.shared_file import SharedFile, open_shared
from foregate.telemetry.log.snapshots import Unkept, write_snapshot, write_unkept
from foregate.telemetry.log.sqlite_reader import LAST, SqliteReader

_NAME = 200
_ENDING = 10.0
"""Seconds to wait until whatever a dead holder had started is gone; it is killed as soon as its holder is."""
_TICK = 0.02
_ERASED = 'SELECT at, "by", why FROM erased WHERE session = ? LIMIT 1'
_FORGET = """DELETE FROM leases WHERE session = ? AND owner = '' AND seq = 0
  AND number = (SELECT max(number) FROM leases)"""
"""Forget a session that was given back without an event; only the newest one, so that no number is missing."""
_KEPT = "SELECT reply FROM questions WHERE session = ? AND seq = ?"


class _StillEnding(SessionHeld):
    """What a dead holder had started still runs."""


class SqliteLog(SqliteReader):
    """Sessions in the file at `path`. Memory holds the head of each open session and what is not yet written.

    With `create` the file and its folder are made when they are not there. With `read_only` the file is left as it is:
    a copy, or one of another user, of this version or an older one; what writes is refused. Raises LogError for a file
    that is not a Foregate log. Close it when done; what was appended before is written then.
    """

    def __init__(self, path: Path | str, *, create: bool = True, read_only: bool = False) -> None:
        super().__init__(path)
        self.read_only = read_only
        self._file: SharedFile | None = None
        self._is_closed = False
        if read_only:
            sqlite_file.open_reader(self.path).close()
        else:
            self._file = open_shared(self.path, create=create)
            self._release = weakref.finalize(self, self._file.release)
            self._reading = self._file.reading
        self._held: dict[str, SessionQueue] = {}

    async def claim(
        self, session: str, *, create: bool = False, take_over: bool = False, despite_erased: bool = False
    ) -> Lease:
        """Take the session; see Log. A holder whose process is gone is succeeded under a higher fence.

        `take_over` succeeds a living holder too, which can write nothing from then on; for a person who knows that
        it is stuck, or that its container is gone. Raises TamperedLog when the session's last events are missing, and
        LogError when events of it were erased, unless `despite_erased` says that what is left tells enough.
        """
        if create and not (0 < len(session) <= _NAME and session.isprintable()):
            raise LogError(f"`{session[:40]!r}` cannot name a session; use up to {_NAME} printable characters")

        def take(connection: sqlite3.Connection) -> SessionQueue:
            self._own_file.set_mark(connection)
            with sqlite_file.write_transaction(connection, self.path):
                if not despite_erased and (erased := connection.execute(_ERASED, (session,)).fetchone()):
                    raise build_erased_error(session, Erasure(*erased))
                return self._take_session(connection, session, create=create, take_over=take_over)

        return await self._claim(session, take)

    async def _claim(self, session: str, take: Callable[[sqlite3.Connection], SessionQueue]) -> Lease:
        until = time.monotonic() + _ENDING
        while True:
            try:
                held = self._held[session] = await self._writer.run_job(take)
            except _StillEnding:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(_TICK)
            else:
                return held.lease

    def _take_session(
        self, connection: sqlite3.Connection, session: str, *, create: bool, take_over: bool
    ) -> SessionQueue:
        row = connection.execute(
            "SELECT owner, pid, started, boot, place, fence, seq, hash FROM leases WHERE session = ?", (session,)
        ).fetchone()
        if row is None and not create:
            raise self._build_unknown_error(session)
        owner, *holder, fence, seq, hash_ = row or ("", 0, "", "", "", 0, 0, GENESIS)
        other = LeaseHolder(*holder)
        standing = other.find_standing(self.path.parent) if owner and not take_over else "gone"
        if standing == "alive":
            where = other.description
            raise SessionHeld(f"session `{session}` is open in {where}; close it there, or start another session here")
        if standing == "ending":
            why = f"what {other.description} had started for session `{session}` still runs, though it has ended itself"
            raise _StillEnding(f"{why}; end it by hand")
        last = connection.execute(LAST, (session,)).fetchone() or (0, GENESIS, "")
        # The head stands beside the lease as well, so that events cut off from the end of the table are missed.
        if last[:2] != (seq, hash_):
            raise TamperedLog(
                f"session `{session}` ends at event {last[0]}, but event {seq} was written; "
                "run `foregate audit verify` on it and go on in another session",
                min(last[0], seq) + 1,
            )
        succeeded = other.description if owner else ""
        # The fence is higher than the last holder's, which can write nothing more even where it still runs.
        mine, lease = get_own_holder(), Lease(session, secrets.token_hex(16), fence + 1, succeeded)
        connection.execute(
            "INSERT INTO leases (session, owner, pid, started, boot, place, fence, seq, hash) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session) DO UPDATE SET owner = excluded.owner, "
            "pid = excluded.pid, started = excluded.started, boot = excluded.boot, place = excluded.place, "
            "fence = excluded.fence",
            (session, lease.owner, mine.pid, mine.started, mine.boot, mine.place, lease.fence, seq, hash_),
        )
        return SessionQueue(lease, seq, hash_, durable=seq)

    async def append(self, lease: Lease, drafts: Sequence[Draft], *, policy: str, time: str) -> Sequence[Event]:
        """Number, chain and hand the drafts to the writer; see Log."""
        held = self._find_queue(lease)
        if held.failed is not None:
            held.raise_failure()
        # Where the disk is slower than the session, what waits must not fill the memory.
        if held.size > BACKLOG:
            await self._writer.settle(held)
        sealed = chain.seal_drafts(
            drafts, session=lease.session, after=held.seq, prev=held.hash, policy=policy, time=time
        )
        if sealed:
            last = sealed[-1][0]
            rows, cuts = _build_rows(lease.session, sealed)
            self._own_file.writer.enqueue(held, rows, cuts)
            held.seq, held.hash = last.seq, last.hash
        return [event for event, _ in sealed]

    async def settle(self, lease: Lease) -> None:
        """Return when everything appended under the lease is durable; see Log."""
        await self._writer.settle(self._find_queue(lease), is_alone=len(self._held) == 1)

    async def _settle_own(self, session: str) -> None:
        if held := self._held.get(session):
            await self._writer.settle(held)

    async def release(self, lease: Lease) -> None:
        """Give the session back; see Log. Raises LogError when something appended before could not be written."""
        held = self._held.get(lease.session)
        if held is None or held.lease != lease:
            return
        del self._held[lease.session]
        await self._writer.run_job(lambda connection: self._give_back(connection, lease))
        held.raise_failure()

    def _give_back(self, connection: sqlite3.Connection, *leases: Lease) -> None:
        with sqlite_file.write_transaction(connection, self.path):
            connection.executemany(
                "UPDATE leases SET owner = '' WHERE session = ? AND owner = ? AND fence = ?",
                [(lease.session, lease.owner, lease.fence) for lease in leases],
            )
            connection.executemany(_FORGET, [(lease.session,) for lease in leases])

    def keep_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """Keep a snapshot once what it stands for is durable, if it can be kept at all; see SnapshotStore."""
        self._find_queue(lease)

        def keep(connection: sqlite3.Connection) -> None:
            try:
                write_snapshot(connection, self.path, lease, snapshot)
            except (OSError, LogError, sqlite3.Error) as error:
                self._write_unkept(connection, Unkept(lease.session, snapshot.seq, str(error)))

        self._writer.hand_job(keep)

    def note_unkept(self, lease: Lease, seq: int, why: str) -> None:
        """Note that no snapshot could be made; see SnapshotStore."""
        found = Unkept(lease.session, seq, why)
        self._writer.hand_job(lambda connection: self._write_unkept(connection, found))

    def _write_unkept(self, connection: sqlite3.Connection, found: Unkept) -> None:
        """Write why a session has no newer snapshot, where that can be written; whoever runs the session goes on."""
        get_diagnostics().warning("snapshot_not_kept", session=found.session, why=found.why)
        with suppress(LogError, sqlite3.Error):
            write_unkept(connection, self.path, found)

    async def erase(
        self,
        session: str,
        *,
        at: str,
        by: str,
        why: str,
        kinds: Sequence[str] = (),
        seqs: Sequence[int] | None = None,
    ) -> int:
        """Erase what the events of a session say, their hashes stay; return how many events that are.

        With `kinds` only events of those are erased, with `seqs` only those of these numbers. An event that ends the
        session stays, since it holds no more than their number. `at` is the time, `by` who it was. Verify the session
        before: afterwards nobody can. Raises SessionHeld while a process has it open, and TamperedLog where its last
        events are missing.
        """

        def take(connection: sqlite3.Connection) -> SessionQueue:
            self._own_file.set_mark(connection)
            with sqlite_file.write_transaction(connection, self.path):
                return self._take_session(connection, session, create=False, take_over=False)

        lease = await self._claim(session, take)
        try:
            erasure = Erasure(at, by, why)
            return await self._writer.run_job(
                lambda file: erase_session(file, self.path, session, erasure, kinds, seqs)
            )
        finally:
            await self.release(lease)

    async def list_asked(self) -> Sequence[tuple[str, int]]:
        """Return sessions and the events by which they may wait for a person; see QuestionStore."""
        return await asyncio.to_thread(self._fetch_rows, "SELECT session, seq FROM questions ORDER BY session, seq", ())

    async def hand_in(self, session: str, seq: int, reply: str) -> str:
        """Keep an answer unless one is kept already, durably; return the one that is kept. See QuestionStore."""
        await self._settle_own(session)

        def keep(connection: sqlite3.Connection) -> str:
            with sqlite_file.write_transaction(connection, self.path):
                connection.execute(
                    # Only where none is kept: the first of two answers counts.
                    "UPDATE questions SET reply = ? WHERE session = ? AND seq = ? AND reply IS NULL",
                    (reply, session, seq),
                )
                rows = connection.execute(_KEPT, (session, seq)).fetchall()
            return rows[0][0] if rows else ""

        return await self._writer.run_job(keep)

    async def read_handed(self, session: str, seq: int) -> str:
        """Return the answer that is kept for a question, "" for none; see QuestionStore."""
        rows = await asyncio.to_thread(self._fetch_rows, _KEPT, (session, seq))
        return rows[0][0] or "" if rows else ""

    def close(self) -> None:
        """Write what was appended, give all sessions back and close the file; doing it twice is harmless."""
        leases = [held.lease for held in self._held.values()]
        self._held.clear()
        if self._file is None or not self._release.alive:
            super().close()
            return
        if leases and self._file.is_ours:
            self._writer.finish(lambda connection: self._give_back(connection, *leases))
        self._is_closed = True
        self._release()

    @property
    def _own_file(self) -> SharedFile:
        """The file as this process has it open to write; raises LogError where it has not."""
        if self._file is None:
            raise LogError(f"the log `{self.path}` may only be read here; set FOREGATE_HOME to a folder of your own")
        if not self._file.is_ours or self._is_closed:
            self._file.check_process()
            raise LogError(f"the log `{self.path}` is closed; open it again")
        return self._file

    @property
    def _writer(self) -> GroupCommit:
        return self._own_file.writer

    def _open_reader(self) -> sqlite3.Connection:
        self._check_process()
        return self._file.reader if self._file is not None and self._release.alive else super()._open_reader()

    def _check_process(self) -> None:
        if self._file is not None:
            self._file.check_process()

    def _find_queue(self, lease: Lease) -> SessionQueue:
        held = self._held.get(lease.session)
        if held is None or held.lease != lease:
            raise SessionHeld(f"session `{lease.session}` is no longer ours; nothing was written")
        return held


def _build_rows(session: str, sealed: Sequence[tuple[Event, str]]) -> tuple[list[Row], list[Cut]]:
    """Return the rows of sealed events, and the parts that are stored apart from them."""
    rows: list[Row] = []
    cuts: list[Cut] = []
    for event, text in sealed:
        if isinstance(event.body, parts.BODIES):
            text, found = parts.cut_text(text)
            cuts += [(event.seq, part) for part in found]
        rows.append((session, event.seq, text, event.hash))
    return rows, cuts

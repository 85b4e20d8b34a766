"""The log files that are open in this process: all logs of one file write, read and mark it together."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from pathlib import Path

from foregate.schemas.errors import LogError
from foregate.telemetry.holder import HolderMark, LeaseHolder, sweep_marks
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.group_commit import GroupCommit

_Key = tuple[int, int]
"""Device and number of a file."""


class SharedFile:
    """One log file as this process has it open, for however many logs: one thread and one connection that write, one
    connection that reads, and the mark of a process that holds sessions.

    A process that was forked from one that has a file open can use none of that, and may not open the file again:
    SQLite would take the locks of the other process for its own, and what it wrote could be lost.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self.uses = path, 0
        self.key = _find_key(path)
        self.is_ours = True
        """Whether this process has opened it, and not the one that it was forked from."""
        self.writer = GroupCommit(connection, path)
        self.reading = threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._mark: HolderMark | None = None

    @property
    def reader(self) -> sqlite3.Connection:
        """The connection that reads; whoever uses it holds `reading`."""
        if self._reader is None:
            self._reader = sqlite_file.open_reader(self.path)
        return self._reader

    def set_mark(self, connection: sqlite3.Connection) -> None:
        """Mark this process as one that holds sessions here, before it holds the first; on the writing thread."""
        if self._mark is None:
            query = "SELECT DISTINCT pid, started, boot, place FROM leases WHERE owner != ''"
            sweep_marks(self.path.parent, {LeaseHolder(*row).mark for row in connection.execute(query)})
            self._mark = HolderMark(self.path.parent)

    def check_process(self) -> None:
        """Raise LogError in a process that was forked from the one that opened the file."""
        if not self.is_ours:
            raise _build_forked_error(self.path)

    def release(self) -> None:
        """Say that one of its logs needs it no more; the last one closes it, and what it was given is written then."""
        if not self.is_ours:
            return
        with _lock:
            self.uses -= 1
            if self.uses:
                return
            del _open[self.key]
        with self.reading:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
        # The last to close the file moves all of it there, which a reader cannot.
        self.writer.close()
        if self._mark is not None:
            self._mark.close()
            self._mark = None


_lock = threading.RLock()
_open: dict[_Key | None, SharedFile] = {}
"""What this process has open, by the file itself: two paths may lead to it, and a path may come to lead to another."""
_inherited: dict[_Key | None, SharedFile] = {}
"""What the process had open that this one was forked from; kept, because closing it here would release locks there."""


def open_shared(path: Path, *, create: bool) -> SharedFile:
    """Return the file at `path` as this process has it open, opened where it is not; whoever takes it releases it.

    Raises LogError as `open_log` does, and in a process that was forked while the file was open.
    """
    with _lock:
        while True:
            key = _find_key(path)
            if key in _inherited:
                raise _build_forked_error(path)
            if key is None or (found := _open.get(key)) is None:
                found = SharedFile(path, sqlite_file.open_log(path, create=create))
                _open[key := found.key] = found
            else:
                with sqlite_file.explain_errors("open", path):
                    sqlite_file.close_to_others(path)
            found.uses += 1
            # Collecting garbage may just have closed it, by its last log.
            if _open.get(key) is found:
                return found


def _find_key(path: Path) -> _Key | None:
    try:
        found = path.stat()
    except OSError:
        # Opening it says what is wrong.
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _build_forked_error(path: Path) -> LogError:
    why = f"the log `{path}` was open when this process was forked, and what it wrote could be lost"
    return LogError(f"{why}; start it with `spawn`, or open the log only after the fork")


def _forget_inherited() -> None:
    """After a fork: the lock may be held by a thread that is not here, and nothing that is open is this process's."""
    global _lock
    _lock = threading.RLock()
    for file in _open.values():
        file.is_ours = False
    _inherited.update(_open)
    _open.clear()


os.register_at_fork(after_in_child=_forget_inherited)

"""The SQLite file under the log: opening only what is ours, and waiting for a turn to write."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from foregate.schemas.errors import LogError
from foregate.telemetry.log import tables
from foregate.telemetry.log.temporary_file import open_folder, sync_folder

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds to wait for another process's write before giving up."""


def open_log(path: Path, *, create: bool) -> sqlite3.Connection:
    """Return a writing connection to the log at `path`, made when it is not there and `create` says so.

    Raises LogError for a file that is not a log of ours, is written by a newer version, or cannot be opened.
    """
    with explain_errors("open", path), ExitStack() as unfinished:
        if create:
            _create_file(path)
        elif not path.exists():
            raise LogError(f"there is no log at `{path}`; check the path")
        connection = unfinished.enter_context(closing(_connect(path, "mode=rw")))
        if not (version := _find_version(connection, path)) or version in tables.UPGRADES:
            if not version:
                retry_while_busy(path, lambda: connection.execute("PRAGMA journal_mode=WAL").fetchone())
            with write_transaction(connection, path):
                tables.bring_up(connection, _find_version(connection, path))
        # A backup that is used again.
        if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            retry_while_busy(path, lambda: connection.execute("PRAGMA journal_mode=WAL").fetchone())
        # With less, a power cut could lose what was committed.
        connection.execute("PRAGMA synchronous=FULL")
        overwrite_deleted(connection)
        close_to_others(path)
        unfinished.pop_all()
        return connection


def close_to_others(path: Path) -> None:
    """Let nobody but its owner read the file."""
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        path.chmod(0o600)


def open_reader(path: Path) -> sqlite3.Connection:
    """Return a connection that cannot write; raise LogError when there is no log of ours at `path`.

    It also reads a copy where nothing can be written, with what SQLite keeps beside the file.
    """
    with explain_errors("open", path), ExitStack() as unfinished:
        connection = unfinished.enter_context(closing(_connect(path, find_mode(path))))
        if not _find_version(connection, path):
            raise _build_foreign_error(path)
        unfinished.pop_all()
        return connection


def find_mode(path: Path) -> str:
    """Return how SQLite must open a file to read it, as the end of its address.

    A reader takes locks in a file beside the log. Where none is there and none can be made, nobody writes either, so
    the file is read as one that never changes; but then SQLite would leave out what is not in it yet without a word.
    Raises LogError where that is the case.
    """
    wal, shm = (path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))
    if shm.exists() or os.access(path.parent, os.W_OK) or not path.exists():
        return "mode=ro"
    if wal.exists() and wal.stat().st_size:
        held = f"the newest events of `{path}` are in `{wal.name}` beside it, which cannot be read where nothing can be"
        raise LogError(f"{held} written; copy both files to a folder of your own, and name that")
    return "mode=ro&immutable=1"


@contextmanager
def explain_errors(verb: str, path: Path) -> Iterator[None]:
    """Raise what SQLite or the file system refuses in a block as a LogError that says what to do about it."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise build_error(verb, path, error) from None


@contextmanager
def write_transaction(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Run a block as one write transaction: committed whole at its end, or not at all."""
    retry_while_busy(path, lambda: connection.execute("BEGIN IMMEDIATE"))
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Whether a file has a table: those of older versions lack some, and one is only made where it is needed."""
    return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (name,)).fetchall())


def overwrite_deleted(connection: sqlite3.Connection) -> None:
    """Have SQLite write zeros over what is deleted or replaced from now on; not every build does so by itself."""
    connection.execute("PRAGMA secure_delete=ON").fetchone()


def retry_while_busy(path: Path, act: Callable[[], T]) -> T:
    """Repeat `act` while another process writes, at random short intervals: SQLite's own wait starves a writer.

    Raises LogError when the file stays locked for `PATIENCE` seconds.
    """
    try:
        return act()
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise
    # Loading the library takes longer than most commands; few ever meet a file that is locked.
    from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

    def give_up(_: object) -> T:
        held = f"has been locked by another process for {PATIENCE:g} seconds"
        raise LogError(f"the log `{path}` {held}; close what holds it and try again")

    retrying = Retrying(
        stop=stop_after_delay(PATIENCE),
        wait=wait_random(0.0001, 0.001),
        retry=retry_if_exception(_is_busy),
        retry_error_callback=give_up,
    )
    result: T = retrying(act)
    return result


def _is_busy(error: BaseException) -> bool:
    busy = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF in busy


def build_error(verb: str, path: Path, error: Exception) -> LogError:
    """Return the error for what SQLite or the file system refused, with what to do about it."""
    if isinstance(error, sqlite3.DatabaseError) and getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
        return _build_foreign_error(path)
    why = error.strerror if isinstance(error, OSError) else str(error)
    return LogError(f"cannot {verb} the log `{path}` ({why}); make sure the file, its folder and the disk can be used")


def _build_foreign_error(path: Path) -> LogError:
    return LogError(f"`{path}` is not a Foregate log; name another file, it was left as it is")


def _create_file(path: Path) -> None:
    """Create an empty file only its owner may read, in a folder only its owner may enter.

    An existing file is never opened here: closing any descriptor of it would drop SQLite's locks of this process.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        with open_folder(path.parent) as folder:
            sync_folder(folder)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?{mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
    # What should be UTF-8 and is not stays visible to the verifier instead of failing the read.
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    # Others may have changed the file, so SQLite is to check its pages as it reads them.
    connection.execute("PRAGMA cell_size_check=ON")
    return connection


def _find_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of a file that holds our tables and nothing else, 0 for an empty one; LogError for any other.

    Nothing but the list of tables is read before that, so that nobody else's views and triggers ever run.
    """
    if connection.in_transaction:
        application, version, found = _read_marks(connection)
    else:
        retry_while_busy(path, lambda: connection.execute("BEGIN"))
        try:
            application, version, found = retry_while_busy(path, lambda: _read_marks(connection))
        finally:
            connection.execute("COMMIT")
    if (application, version, found) == (0, 0, set()):
        return 0
    if application != tables.APPLICATION:
        raise _build_foreign_error(path)
    if version > tables.VERSION:
        raise LogError(f"the log `{path}` was written by a newer Foregate (tables {version}); upgrade to read it")
    if found != set(tables.TABLES.get(version, ())):
        raise LogError(f"`{path}` is not a Foregate log any more: its tables were changed; restore it from a copy")
    return version


def _read_marks(connection: sqlite3.Connection) -> tuple[int, int, set[str]]:
    """Return application id, version and the statements of all tables; consistent inside one transaction."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    rows = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return application, version, {sql for (sql,) in rows}

"""The SQLite file under the log: its tables in every version, opening only what is ours, waiting for a turn."""

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
from foregate.telemetry.log.temporary_file import open_folder, sync_folder

APPLICATION = 0x46475445
"""SQLite's application id of our files: "FGTE"."""

_LEASES = """CREATE TABLE leases (
  number INTEGER PRIMARY KEY,
  session TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  pid INTEGER NOT NULL,
  started TEXT NOT NULL,
  boot TEXT NOT NULL,
  place TEXT NOT NULL,
  fence INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  hash TEXT NOT NULL
) STRICT"""
_EVENTS = """CREATE TABLE events (
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  text TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT"""
KIND = "CASE WHEN json_valid(text) THEN json_extract(text, '$.kind') END"
"""The kind of an event, from the text that is hashed, so that no column can tell another story than the chain."""
_KEY = "  PRIMARY KEY"
_WITH_KIND = (
    _EVENTS.replace(_KEY, f"  kind TEXT GENERATED ALWAYS AS ({KIND}) VIRTUAL,\n{_KEY}"),
    "CREATE INDEX events_by_kind ON events (session, kind, seq)",
)
T = TypeVar("T")
PATIENCE = 10.0
"""Seconds to wait for another process's write before giving up."""


def _build_condition(row: str, raised: bool) -> str:
    """Return the condition for an event that asks a person, or for one that ends what was asked.

    Searching the text comes first, since that is much cheaper than reading it.
    """
    kinds = ("need_raised",) if raised else ("need_answered", "task_ended")
    found = " OR ".join(f"instr({row}.text, '\"{kind}\"')" for kind in kinds)
    named = ", ".join(f"'{kind}'" for kind in kinds)
    read = f"json_extract({row}.text, '$.kind') IN ({named})"
    if raised:
        read += f" AND json_extract({row}.text, '$.body.need.who') = 'person'"
    return f"({found}) AND CASE WHEN json_valid({row}.text) THEN {read} END"


_QUESTIONS = """CREATE TABLE questions (
  session TEXT PRIMARY KEY,
  seq INTEGER NOT NULL,
  reply TEXT
) STRICT"""
"""Where a session may wait for a person, and the answer that waits to be taken into its log.

It is kept with the events, in their transaction and by their text. It points at more than is open, never at less: what
is open, the events say.
"""
_TRIGGERS = (
    f"""CREATE TRIGGER question_raised AFTER INSERT ON events WHEN {_build_condition("NEW", raised=True)} BEGIN
  INSERT INTO questions (session, seq) VALUES (NEW.session, NEW.seq)
  ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, reply = NULL;
END""",  # noqa: S608
    f"""CREATE TRIGGER question_ended AFTER INSERT ON events WHEN {_build_condition("NEW", raised=False)} BEGIN
  DELETE FROM questions WHERE session = NEW.session;
END""",  # noqa: S608
)
"""What kept the questions of a file up to version 6: they read each event, which took a tenth of a turn."""
NOTE_RAISED = f"""INSERT INTO questions (session, seq) SELECT session, seq FROM events
  WHERE session = ? AND seq = ? AND {_build_condition("events", raised=True)}
  ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, reply = NULL"""  # noqa: S608
NOTE_ENDED = f"""DELETE FROM questions WHERE session IN (SELECT session FROM events
  WHERE session = ? AND seq = ? AND {_build_condition("events", raised=False)})"""  # noqa: S608
"""What keeps them, for each event that may ask a person or end what was asked."""
_FILL = (
    f"""INSERT INTO questions (session, seq) SELECT session, max(seq) FROM events
  WHERE {_build_condition("events", raised=True)} GROUP BY session""",  # noqa: S608
    f"""DELETE FROM questions WHERE EXISTS (SELECT 1 FROM events WHERE events.session = questions.session
  AND events.seq > questions.seq AND {_build_condition("events", raised=False)})""",  # noqa: S608
)
_PARTS = (
    """CREATE TABLE parts (
  hash TEXT PRIMARY KEY,
  text TEXT NOT NULL
) STRICT""",
    """CREATE TABLE cuts (
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  place INTEGER NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (session, seq, place)
) STRICT, WITHOUT ROWID""",
    "CREATE INDEX cuts_by_part ON cuts (hash)",
)
"""Long values that many sessions have in common, each once, and where they belong in the texts of events."""
_ERASED = """CREATE TABLE erased (
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  at TEXT NOT NULL,
  "by" TEXT NOT NULL,
  why TEXT NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID"""
"""The events whose text is gone: who erased it, when and why. Their hashes stay where they are."""
_SNAPSHOTS = """CREATE TABLE snapshots (
  session TEXT PRIMARY KEY,
  seq INTEGER NOT NULL,
  hash TEXT NOT NULL,
  version TEXT NOT NULL,
  data BLOB NOT NULL
) STRICT"""
"""What a session's events fold to as far as one of them. Nothing is lost where a row is deleted."""
_ADDED = {3: (_QUESTIONS, *_TRIGGERS), 5: (*_PARTS, _ERASED, _SNAPSHOTS)}
"""What each version has beyond those before it."""
_BEGINS = {1: (_LEASES, *_WITH_KIND), 2: (_LEASES, _EVENTS)}
TABLES = {
    **_BEGINS,
    3: (*_BEGINS[1], *_ADDED[3]),
    4: (*_BEGINS[2], *_ADDED[3]),
    5: (*_BEGINS[1], *_ADDED[3], *_ADDED[5]),
    6: (*_BEGINS[2], *_ADDED[3], *_ADDED[5]),
    7: (*_BEGINS[2], _QUESTIONS, *_ADDED[5]),
}
"""What a file of each version holds. Events of the first stay as they are: its index only makes each commit dearer."""
UPGRADES = {1: 5, 2: 6, 3: 5, 4: 6}
"""The version that a file of an older one is brought to when it is opened to be written."""
VERSION = max(TABLES)
"""The version new files get, kept in SQLite's user_version."""


def bring_up(connection: sqlite3.Connection, version: int) -> None:
    """Make an empty file a log, and add to an older one what it has not yet, in the transaction under way."""
    wanted = UPGRADES.get(version, version or VERSION)
    for statement in TABLES[wanted]:
        if not version or statement not in TABLES[version]:
            connection.execute(statement)
    for statement in _FILL if version in _BEGINS else ():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute(f"PRAGMA user_version={wanted}")


def is_older(connection: sqlite3.Connection) -> bool:
    """Whether a file is of an older version just now, and lacks what was added since: it was opened only to be read."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return version in UPGRADES


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
        if not (version := _find_version(connection, path)) or version in UPGRADES:
            if not version:
                retry_while_busy(path, lambda: connection.execute("PRAGMA journal_mode=WAL").fetchone())
            with write_transaction(connection, path):
                bring_up(connection, _find_version(connection, path))
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
    if application != APPLICATION:
        raise _build_foreign_error(path)
    if version > VERSION:
        raise LogError(f"the log `{path}` was written by a newer Foregate (tables {version}); upgrade to read it")
    if found != set(TABLES.get(version, ())):
        raise LogError(f"`{path}` is not a Foregate log any more: its tables were changed; restore it from a copy")
    return version


def _read_marks(connection: sqlite3.Connection) -> tuple[int, int, set[str]]:
    """Return application id, version and the statements of all tables; consistent inside one transaction."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    rows = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return application, version, {sql for (sql,) in rows}

"""The SQLite file of the index: its tables, opened safely beside other processes, and made anew where it is no good."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import fields

from foregate.schemas.errors import LogError
from foregate.telemetry.log.sqlite_file import PATIENCE, overwrite_deleted, retry_while_busy, write_transaction
from foregate.telemetry.queries.rows import SessionFacts

VERSION = 8
"""Raised whenever the tables, or what is written into them, change: an index of another version is made anew."""
_APPLICATION = 0x46474958
"""SQLite's application id of an index: "FGIX"."""
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_TYPES = {str: "TEXT", int: "INTEGER"}
_FILTERED = """at, session, seq, turn, part, main, gate, code, standing, severity, fired, early, shadow, tool, target,
  key, policy, approver, origin, risk"""
"""Everything that a filter or a count looks at: one pass over an index of these columns answers any of them."""
_FACTS = ", ".join(f"{one.name} {_TYPES[one.type]} NOT NULL" for one in fields(SessionFacts))
_TABLES = (
    "CREATE TABLE notes (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    # Texts that stand in many rows: names, targets, keys, hashes.
    "CREATE TABLE words (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT",
    f"""CREATE TABLE sessions (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, number INTEGER NOT NULL,
  seq INTEGER NOT NULL, hash TEXT NOT NULL, fold TEXT NOT NULL, problem TEXT NOT NULL, {_FACTS}
) STRICT""",
    """CREATE TABLE tasks (session INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (session, seq)) STRICT, WITHOUT ROWID""",
    # Events that a timeline shows beside decisions.
    """CREATE TABLE asides (session INTEGER NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (session, seq)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE turns (
  id INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, time TEXT NOT NULL,
  task INTEGER NOT NULL, early INTEGER NOT NULL, calls INTEGER NOT NULL, stopped INTEGER NOT NULL
) STRICT""",
    "CREATE INDEX turns_by_session ON turns (session, seq)",
    "CREATE INDEX turns_by_time ON turns (at, session, task, early, calls, stopped)",
    """CREATE TABLE decisions (
  id INTEGER PRIMARY KEY, turn INTEGER NOT NULL, session INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
  part INTEGER NOT NULL, main INTEGER NOT NULL, gate INTEGER NOT NULL, code INTEGER NOT NULL,
  mode INTEGER NOT NULL,
  standing INTEGER NOT NULL, severity INTEGER NOT NULL, passed INTEGER NOT NULL, fired INTEGER NOT NULL,
  early INTEGER NOT NULL, shadow INTEGER NOT NULL, tool INTEGER NOT NULL, target INTEGER NOT NULL,
  call INTEGER NOT NULL, key INTEGER NOT NULL, policy INTEGER NOT NULL, approver INTEGER NOT NULL,
  origin INTEGER NOT NULL, risk INTEGER, summary TEXT NOT NULL
) STRICT""",
    "CREATE INDEX decisions_by_session ON decisions (session, seq, id)",
    f"CREATE INDEX decisions_by_time ON decisions ({_FILTERED})",
    "CREATE INDEX decisions_by_target ON decisions (target)",
    "CREATE INDEX decisions_by_gate ON decisions (gate, shadow, early, main, fired, at, session, standing)",
    f"CREATE INDEX notable_by_time ON decisions ({_FILTERED}) WHERE passed = 0",
    """CREATE TABLE decision_rules (decision INTEGER NOT NULL, place INTEGER NOT NULL, rule INTEGER NOT NULL,
  PRIMARY KEY (decision, place)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX decisions_by_rule ON decision_rules (rule, decision)",
    """CREATE TABLE asks (
  id INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, who TEXT NOT NULL,
  gate TEXT NOT NULL, by TEXT NOT NULL, raised INTEGER NOT NULL DEFAULT 0, answered INTEGER NOT NULL DEFAULT 0,
  choice TEXT NOT NULL DEFAULT '', yes INTEGER NOT NULL DEFAULT 0, took INTEGER, approver INTEGER NOT NULL DEFAULT 0,
  model_calls INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0, turn INTEGER,
  not_run TEXT NOT NULL DEFAULT '', key TEXT NOT NULL DEFAULT ''
) STRICT""",
    "CREATE INDEX asks_by_session ON asks (session, answered)",
    """CREATE TABLE overrides (session INTEGER NOT NULL, at INTEGER NOT NULL, gate TEXT NOT NULL,
  turn INTEGER NOT NULL) STRICT""",
    "CREATE INDEX overrides_by_session ON overrides (session)",
    """CREATE TABLE policy_rules (policy INTEGER NOT NULL, place INTEGER NOT NULL, rule INTEGER NOT NULL,
  PRIMARY KEY (policy, place)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE session_policies (session INTEGER NOT NULL, policy INTEGER NOT NULL,
  PRIMARY KEY (session, policy)) STRICT, WITHOUT ROWID""",
    # Of the texts themselves only their words are kept; an excerpt is read from the log.
    """CREATE TABLE texts (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
  time TEXT NOT NULL, what TEXT NOT NULL, cut INTEGER NOT NULL, decision INTEGER
) STRICT""",
    "CREATE INDEX texts_by_session ON texts (session, seq)",
)
_WORDS = "CREATE VIRTUAL TABLE passages USING fts5(text, content='', tokenize=\"unicode61 remove_diacritics 2\")"
_PLAIN = "CREATE TABLE passages (text TEXT NOT NULL) STRICT"
"""What stands for the full-text index where this SQLite was built without one."""
OF_SESSION = ("tasks", "asides", "turns", "decisions", "asks", "overrides", "session_policies", "texts")
"""The tables with rows of a session."""


class BrokenIndex(Exception):
    """The file is no index, or a damaged one."""


def open_index(path: Path | None) -> sqlite3.Connection:
    """Return a connection to the index at `path`, made where it is missing; None is an index in memory.

    An index of another version is emptied, a damaged one replaced. Raises LogError where the file cannot be used.
    """
    if path is None:
        return _open_file(":memory:", Path(":memory:"))
    for attempt in range(3):
        try:
            _create_file(path)
            return _open_file(str(path), path)
        except BrokenIndex:
            if attempt == 2:
                raise build_error(path, OSError(0, "it stays damaged")) from None
            remove_index(path)
        except (OSError, sqlite3.Error) as error:
            raise build_error(path, error) from None
    raise AssertionError("unreachable")


def build_error(path: Path | None, error: Exception) -> LogError:
    """Return the error for what SQLite or the file system refused, with what to do about it."""
    why = error.strerror if isinstance(error, OSError) else str(error)
    return LogError(f"the index `{path}` cannot be used ({why}); delete it, it is made from the log again")


def remove_index(path: Path) -> None:
    """Delete an index and what SQLite keeps beside it; whoever reads it keeps what it has open."""
    for suffix in ("-wal", "-shm", "-journal", ""):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()


def empty_index(connection: sqlite3.Connection) -> None:
    """Take everything out of an index and make its tables, in the transaction that is under way."""
    found = connection.execute(
        "SELECT type, name FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
    )
    tables = [name for kind, name in found if kind == "table"]
    # The tables within it go with it.
    for name in sorted(tables, key=lambda name: name != "passages"):
        connection.execute(f'DROP TABLE IF EXISTS "{name.replace(chr(34), chr(34) * 2)}"')
    for statement in _TABLES:
        connection.execute(statement)
    try:
        connection.execute(_WORDS)
    except sqlite3.OperationalError:
        connection.execute(_PLAIN)
    connection.execute("INSERT INTO words VALUES (0, '')")
    connection.execute(f"PRAGMA application_id={_APPLICATION}")
    connection.execute(f"PRAGMA user_version={VERSION}")


def has_full_text(connection: sqlite3.Connection) -> bool:
    """Whether words are found by a full-text index, and not by looking at every text."""
    found = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'passages'").fetchone()
    return found is not None and found[0] == _WORDS


@contextmanager
def hold_writing(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Run a block as one write transaction of an index; BrokenIndex says that the file is damaged."""
    with explain_damage(), write_transaction(connection, path):
        yield


@contextmanager
def explain_damage() -> Iterator[None]:
    """Raise BrokenIndex for what SQLite says of a damaged file, or of one whose tables are not ours."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0)
        if code & 0xFF in _BROKEN or (code == sqlite3.SQLITE_ERROR and "no such" in str(error)):
            raise BrokenIndex(str(error)) from None
        raise


def _open_file(name: str, path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(name, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        with explain_damage():
            connection.execute("PRAGMA cell_size_check=ON")
            overwrite_deleted(connection)
            connection.execute("PRAGMA cache_size=-65536")
            connection.execute("PRAGMA temp_store=MEMORY")
            connection.execute("PRAGMA trusted_schema=OFF")
            if not retry_while_busy(path, lambda: _is_current(connection)):
                retry_while_busy(path, lambda: connection.execute("PRAGMA journal_mode=WAL").fetchone())
                with hold_writing(connection, path):
                    if not _is_current(connection):
                        empty_index(connection)
            # What a power cut takes is made again.
            connection.execute("PRAGMA synchronous=NORMAL")
        return connection
    except BaseException:
        connection.close()
        raise


def _is_current(connection: sqlite3.Connection) -> bool:
    """Whether a file holds the tables of this version and nothing else."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) != (_APPLICATION, VERSION):
        return False
    rows = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'passages_%'")
    found = {sql for (sql,) in rows if not sql.startswith("CREATE TABLE sqlite_")}
    return any(found == {*_TABLES, words} for words in (_WORDS, _PLAIN))


def _create_file(path: Path) -> None:
    """Create an empty file that only its owner may read; an existing one is never opened here (SQLite's locks)."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))

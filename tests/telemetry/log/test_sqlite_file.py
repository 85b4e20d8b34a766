"""The file under the log: only its owner's, only ours, and every version of it."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from foregate.schemas.errors import LogError
from foregate.telemetry.log import chain, sqlite_file
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.log.sqlite_reader import SqliteReader
from foregate.telemetry.queries.verify import verify_session
from tests.telemetry.log.test_parts import begin
from tests.telemetry.made import CHECKPOINT, said

FIRST_VERSION = """
CREATE TABLE leases (
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
) STRICT;
CREATE TABLE events (
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  text TEXT NOT NULL,
  hash TEXT NOT NULL,
  kind TEXT GENERATED ALWAYS AS (CASE WHEN json_valid(text) THEN json_extract(text, '$.kind') END) VIRTUAL,
  PRIMARY KEY (session, seq)
) STRICT;
CREATE INDEX events_by_kind ON events (session, kind, seq);
PRAGMA application_id = 1179079749;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log is, in a folder that is not there yet."""
    return tmp_path / "home" / "events.db"


@pytest.fixture
def log(path: Path) -> Iterator[SqliteLog]:
    """An open log."""
    log = SqliteLog(path)
    yield log
    log.close()


async def say(log: SqliteLog) -> None:
    """Append two events of different kinds to a new session `s`, and settle."""
    lease = await log.claim("s", create=True)
    await log.append(lease, [said("one"), CHECKPOINT], policy="p", time="")
    await log.settle(lease)


async def test_only_the_owner_may_read_the_file_and_enter_its_folder(log: SqliteLog, path: Path) -> None:
    await say(log)
    modes = {item.name: stat.S_IMODE(item.stat().st_mode) for item in [path.parent, *path.parent.iterdir()]}
    files = dict.fromkeys(("events.db", "events.db-wal", "events.db-shm"), 0o600)
    assert modes == {"home": 0o700, "holders": 0o700} | files


async def test_a_log_others_could_read_is_closed_to_them_when_opened(log: SqliteLog, path: Path) -> None:
    path.chmod(0o644)
    SqliteLog(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_log_of_the_first_version_is_written_and_read_as_any_other(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as old:
        old.executescript(FIRST_VERSION)
    old.close()
    log = SqliteLog(path)
    await say(log)
    assert [event.seq for event in log.events("s", kinds=("checkpoint",))] == [2]
    assert [event.seq for event in chain.verify_lines(log.lines("s"), "s")] == [1, 2]
    log.close()


@pytest.mark.parametrize("version", sqlite_file.UPGRADES)
async def test_a_log_of_any_earlier_version_is_read_as_it_is_and_brought_up_where_it_is_written(
    path: Path, version: int
) -> None:
    new = SqliteLog(path.with_name("new.db"))
    await begin(new, "s")
    lines = list(new.lines("s"))
    new.close()
    with sqlite3.connect(path) as old:
        for statement in sqlite_file.TABLES[version]:
            old.execute(statement)
        old.executemany("INSERT INTO events (session, seq, text, hash) VALUES ('s', ?, ?, ?)", lines)
        old.execute("INSERT INTO leases VALUES (1, 's', '', 0, '', '', '', 1, ?, ?)", (lines[-1][0], lines[-1][2]))
        old.execute(f"PRAGMA application_id = {sqlite_file.APPLICATION}")
        old.execute(f"PRAGMA user_version = {version}")
    old.close()
    before, reader = path.read_bytes(), SqliteReader(path)
    assert (list(reader.lines("s")), reader.list_erased("s")) == (lines, {})
    assert [event.seq for event in reader.events("s")] == [1, 2]
    assert path.read_bytes() == before
    log = SqliteLog(path)
    assert list(reader.lines("s")) == list(log.lines("s")) == lines
    await begin(log, "t")
    assert [verify_session(reader, name).ok for name in "st"] == [True, True]
    log.close()
    reader.close()
    with sqlite3.connect(path) as kept:
        assert kept.execute("PRAGMA user_version").fetchone() == (sqlite_file.UPGRADES[version],)
    kept.close()


def foreign_text(path: Path) -> None:
    """Write a text file."""
    path.write_text("these are notes, not a database at all")


def foreign_database(path: Path) -> None:
    """Write somebody else's database."""
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE notes (text)")
    other.close()


def other_tables(path: Path) -> None:
    """Write a log of ours that somebody added a trigger to."""
    SqliteLog(path).close()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END")
    other.close()


def mislabelled(path: Path) -> None:
    """Write a log whose tables are those of another version than it says."""
    SqliteLog(path).close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 1")
    other.close()


def newer(path: Path) -> None:
    """Write a log of a later version."""
    SqliteLog(path).close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (foreign_text, "is not a Foregate log; name another file"),
        (foreign_database, "is not a Foregate log; name another file"),
        (other_tables, "is not a Foregate log any more"),
        (mislabelled, "is not a Foregate log any more"),
        (newer, "written by a newer Foregate"),
        (Path.mkdir, "cannot open the log"),
    ],
)
def test_a_file_that_is_not_our_log_is_refused_and_left_alone(tmp_path: Path, make: object, sentence: str) -> None:
    path = tmp_path / "file"
    make(path)  # type: ignore[operator]
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(LogError, match=sentence):
        SqliteLog(path)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_log_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="there is no log at"):
        SqliteLog(tmp_path / "none.db", create=False)
    assert not (tmp_path / "none.db").exists()

"""The index follows the log, and is thrown away where it does not fit."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from foregate.schemas.errors import LogError, UsageError
from foregate.telemetry.queries import index_tables as tables
from foregate.telemetry.queries.filters import DecisionFilter, SessionFilter
from foregate.telemetry.queries.index_rows import RowWriter
from foregate.telemetry.queries.rows import DecisionRow
from tests.agent import corpus
from tests.telemetry.queries.made_index import Line, open_index, play, put_session

FOLLOW = """
import sys
from pathlib import Path
from foregate.telemetry.queries.audit_index import AuditIndex
from foregate.telemetry.log.sqlite_log import SqliteLog

log = Path(sys.argv[1])
index = AuditIndex(SqliteLog(log, create=False), log.with_name("index.db"))
index.catch_up()
index.close()
"""


@pytest.fixture
async def lines() -> list[Line]:
    """A session in which a rule asks and the person says no."""
    return await play(corpus.rules_ask)


@pytest.fixture
def log(tmp_path: Path, lines: list[Line]) -> Path:
    path = tmp_path / "events.db"
    put_session(path, "one", lines)
    return path


def decisions(path: Path, **fields: object) -> list[DecisionRow]:
    """Return the decisions that fit, over an index that has caught up."""
    with closing(open_index(path)) as index:
        return index.find_decisions(DecisionFilter(**fields), limit=0)  # type: ignore[arg-type]


def test_it_is_private_and_nothing_is_read_twice(log: Path) -> None:
    before = decisions(log, passed=True)
    assert before
    path = log.with_name("index.db")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with closing(sqlite3.connect(log)) as file, file:
        file.execute("UPDATE events SET text = 'nothing that can be read'")
    assert decisions(log, passed=True) == before


def test_it_goes_on_where_it_stopped_and_knows_what_it_would_have_known_at_once(
    log: Path, lines: list[Line], tmp_path: Path
) -> None:
    (tmp_path / "piecewise").mkdir()
    other = tmp_path / "piecewise" / "events.db"
    for count in range(1, len(lines) + 1):
        put_session(other, "one", lines[:count])
        found = decisions(other, passed=True)
    assert found == decisions(log, passed=True)
    with closing(open_index(log)) as whole, closing(open_index(other)) as pieces:
        assert pieces.list_sessions() == whole.list_sessions()


def test_a_session_that_was_written_anew_is_indexed_anew(log: Path, lines: list[Line]) -> None:
    with closing(open_index(log)) as index:
        (before,) = index.list_sessions()
    seq, text, _ = lines[-1]
    other = text.replace(f'"status":"{before.state}"', '"status":"cancelled"')
    put_session(log, "one", [*lines[:-1], (seq, other, "f" * 64)])  # as many events, and the last is another
    with closing(open_index(log)) as index:
        (after,) = index.list_sessions()
        assert (before.state, after.state) == ("blocked", "cancelled")
        assert after.tasks == before.tasks
    put_session(log, "one", lines[:3])
    assert decisions(log, passed=True) == []


async def test_what_goes_on_from_another_event_than_was_indexed_is_indexed_anew(log: Path, lines: list[Line]) -> None:
    decisions(log)
    other = await play(corpus.rules_deny)
    assert len(other) < len(lines)
    put_session(log, "one", other)
    assert {row.code for row in decisions(log)} == {"denied_by_rule"}
    put_session(log, "one", lines)  # longer again, and its events do not go on from what was indexed
    assert "denied_by_rule" not in {row.code for row in decisions(log)}


def test_a_session_that_only_lacks_its_beginning_is_not_called_erased(log: Path, lines: list[Line]) -> None:
    put_session(log, "one", lines[1:])
    put_session(log, "two", lines[:1])
    with closing(open_index(log)) as index:
        assert [row.state for row in index.list_sessions()] == ["open", "blocked"]


def test_a_session_that_is_gone_is_not_found_any_more(log: Path, lines: list[Line]) -> None:
    put_session(log, "two", lines)
    assert {row.session for row in decisions(log)} == {"one", "two"}
    with closing(sqlite3.connect(log)) as file, file:
        file.execute("DELETE FROM leases WHERE session = 'two'")
        file.execute("DELETE FROM events WHERE session = 'two'")
    assert {row.session for row in decisions(log)} == {"one"}


@pytest.mark.parametrize("damage", ["other version", "no database", "other tables", "torn"])
def test_an_index_that_is_no_good_is_made_anew(log: Path, damage: str) -> None:
    before = decisions(log)
    path = log.with_name("index.db")
    if damage == "no database":
        path.write_bytes(b"no index" * 1000)
    elif damage == "torn":
        data = bytearray(path.read_bytes())
        data[4096:] = bytes(len(data) - 4096)
        path.write_bytes(data)
    else:
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("PRAGMA user_version = 999" if damage == "other version" else "DROP TABLE turns")
    assert [row.address for row in decisions(log)] == [row.address for row in before]


def test_a_writer_believes_no_number_that_another_has_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with closing(tables.open_index(path)) as connection, closing(tables.open_index(path)) as other:
        writer = RowWriter(connection)
        writer.begin()
        before = writer.intern("name")
        with tables.hold_writing(other, path):
            tables.empty_index(other)
            other.execute("INSERT INTO words VALUES (?, 'another')", (before,))
        writer.begin()
        after = writer.intern("name")
        found = connection.execute("SELECT text FROM words WHERE id IN (?, ?) ORDER BY id", (before, after)).fetchall()
        assert found == [("another",), ("name",)]


def test_several_threads_may_ask_one_index(tmp_path: Path, lines: list[Line]) -> None:
    path = tmp_path / "events.db"
    with closing(open_index(path, create=True)) as index, ThreadPoolExecutor(4) as pool:
        for number in range(12):
            put_session(path, f"s{number}", lines)
            for asked in [pool.submit(index.catch_up) for _ in range(4)]:
                asked.result()
            for found in [pool.submit(index.count_decisions, DecisionFilter()) for _ in range(4)]:
                assert found.result().notable % (number + 1) == 0


def test_several_processes_may_catch_up_at_once(tmp_path: Path, lines: list[Line]) -> None:
    path = tmp_path / "events.db"
    for number in range(20):
        put_session(path, f"s{number}", lines)
    workers = [subprocess.Popen([sys.executable, "-c", FOLLOW, path]) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    found = decisions(path)
    assert len(found) == 20 * len([row for row in found if row.session == "s7"])


def test_without_a_full_text_index_words_are_found_all_the_same(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_index(log, in_memory=True)) as index:
        assert index.full_text
        places = {(found.seq, found.what) for found in index.search(["teh"], SessionFilter())}
    monkeypatch.setattr(tables, "_WORDS", "CREATE VIRTUAL TABLE passages USING nothing_there(text)")
    with closing(open_index(log, in_memory=True)) as index:
        assert not index.full_text
        assert {(found.seq, found.what) for found in index.search(["teh"], SessionFilter())} == places


def test_an_event_that_cannot_be_read_is_named_and_the_rest_is_found(log: Path) -> None:
    with closing(sqlite3.connect(log)) as file, file:
        file.execute("UPDATE events SET text = 'x' WHERE seq = 2")
    with closing(open_index(log)) as index:
        (row,) = index.list_sessions()
        assert row.problem.startswith("event 2 cannot be read")
        assert index.find_decisions(DecisionFilter())


def test_a_page_goes_on_after_the_last_row_of_the_one_before(log: Path) -> None:
    with closing(open_index(log)) as index:
        whole = index.find_decisions(DecisionFilter(passed=True), limit=0)
        paged, after = [], None
        while page := index.find_decisions(DecisionFilter(passed=True), after=after, limit=4):
            paged += page
            after = page[-1].id
        assert paged == whole == list(index.stream_decisions(DecisionFilter(passed=True)))
        with pytest.raises(UsageError, match="made anew"):
            index.find_decisions(DecisionFilter(), after=10**9)


def test_an_index_that_cannot_be_written_is_one_clear_error(log: Path) -> None:
    (log.with_name("index.db")).mkdir()
    with pytest.raises(LogError, match=r"index\.db"):
        open_index(log)

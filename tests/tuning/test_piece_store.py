"""What was judged is kept beside the log: the second run judges only what is new, and finds the same."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from foregate.gates.replay.assumption import Assumption
from foregate.policy.source.layers import Layer
from foregate.policy.source.strict_yaml import format_path
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.tuning import levers, piece_store, what_if
from foregate.tuning.levers import LeverSearch
from foregate.tuning.piece_store import MOST_ASKED, PieceStore
from foregate.tuning.pieces import SessionPiece
from foregate.tuning.reach_index import ReachIndex, open_reach_index
from foregate.tuning.trials import TrialJudge
from foregate.tuning.what_if import Row, WhatIf, WhatIfTally
from tests.tuning.test_reach_index import Growing
from tests.varied import varied_log

FILE = {"narration": {"mode": "off"}, "uncertainty": {"threshold": 300}}
TRIED = ("uncertainty.threshold", "approval.mode", "narration.min_chars", "files.max_hash")


def judge(index: ReachIndex | None, names: list[str], data: Any = FILE, log: Any = None, assume: Any = None) -> Any:
    """Return the rows, the counts and what is counted where answers are assumed, kept where there is an index."""
    judged = WhatIf(log or varied_log()[0], Layer("x", "x", data, {}), 1, index, assume, keeps=index is not None)
    rows: list[Row] = list(judged.find_changes(names))
    tally: WhatIfTally = judged.tally
    return rows, tally, judged.phases.before, judged.phases.at, judged.phases.after


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> Iterator[list[SessionPiece]]:
    """Give the pieces that a class of judges is asked about."""
    asked, judges = list[SessionPiece](), getattr(place, name)

    class Watching(judges):  # type: ignore[misc]
        def __call__(self, piece: SessionPiece) -> Any:
            asked.append(piece)
            return super().__call__(piece)

    with monkeypatch.context() as patched:
        patched.setattr(place, name, Watching)
        yield asked


def open_index(folder: Path, names: list[str]) -> ReachIndex:
    index = ReachIndex(varied_log()[0], folder / "tuning.db")
    index.catch_up(names, 1)
    return index


@pytest.mark.parametrize("assume", [None, Assumption("accept", "accept", "yes")])
def test_the_same_file_is_judged_once_and_comes_out_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assume: Assumption | None
) -> None:
    names = varied_log()[1][:8]
    plain = judge(None, names, assume=assume)
    with closing(open_index(tmp_path, names)) as index:
        assert judge(index, names[:6], assume=assume) == judge(None, names[:6], assume=assume)
    with closing(open_index(tmp_path, names)) as index, watched(monkeypatch, what_if, "PieceJudge") as asked:
        assert judge(index, names, assume=assume) == plain
        assert {piece.session for piece in asked} <= set(names[6:])
        asked.clear()
        assert judge(index, names, assume=assume) == plain
        assert asked == []
        other = {**FILE, "uncertainty": {"threshold": 200}}
        assert judge(index, names, other, assume=assume) == judge(None, names, other, assume=assume)
        assert asked != []


def test_what_is_kept_of_a_session_that_goes_on_counts_up_to_where_it_was() -> None:
    log, names = varied_log()
    growing: Any = Growing(log, 10)
    index = ReachIndex(growing, None)
    for there in (10, 24, 10_000, 10_000):
        growing.there = there
        index.catch_up(names[:4], 1)
        assert judge(index, names[:4], log=growing) == judge(None, names[:4], log=growing)


def test_a_kept_piece_that_was_damaged_is_judged_again(tmp_path: Path) -> None:
    names = varied_log()[1][:4]
    with closing(open_index(tmp_path, names)) as index:
        wanted = judge(index, names)
        for damage in ("body = zeroblob(length(body))", "sum = ''", "hash = 'x'"):
            index.kept.connection.execute(f"UPDATE pages SET {damage} WHERE name LIKE 'what-if%'")
            assert judge(index, names) == wanted
        index.kept.connection.execute("DROP TABLE pages")
        assert judge(index, names) == wanted


def test_answers_to_old_questions_go(tmp_path: Path) -> None:
    with closing(PieceStore(varied_log()[0], tmp_path / "tuning.db")) as kept:
        name = varied_log()[1][0]
        head = varied_log()[0].head_anchor(name)
        for number in range(MOST_ASKED + 3):
            kept.ask(f"what-if {number}")
            kept.keep(f"what-if {number}", SessionPiece(name, 0, head[0], ()), head, b"x")
            kept.commit()
            kept.ask("what-if 0")
        there = [one for one in range(MOST_ASKED + 3) if kept.read(f"what-if {one}", name, head) == ([b"x"], head[0])]
        assert there == [0, *range(4, MOST_ASKED + 3)]


def search(index: ReachIndex, names: list[str]) -> Any:
    found = LeverSearch(varied_log()[0], names, index, 1)
    return found.find_levers(), found.quiet, found.unread, found.beside


def test_levers_try_in_the_second_run_what_is_new_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levers, "is_movable", lambda path: format_path(path) in TRIED)
    names = varied_log()[1][:8]
    with closing(ReachIndex(varied_log()[0], None)) as fresh:
        fresh.catch_up(names, 1)
        wanted = search(fresh, names)
    with closing(open_index(tmp_path, names)) as index:
        search(index, names[:4])
    with closing(open_index(tmp_path, names)) as index, watched(monkeypatch, levers, "TrialJudge") as asked:
        assert search(index, names) == wanted
        assert asked != []
        asked.clear()
        assert search(index, names) == wanted
        assert asked == []


def test_what_was_found_before_an_interruption_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levers, "is_movable", lambda path: format_path(path) == "approval.mode")
    names, seen = varied_log()[1][:8], list[str]()

    class Interrupted(TrialJudge):
        def __call__(self, piece: SessionPiece) -> Any:
            if len(seen) == 2:
                raise KeyboardInterrupt
            seen.append(piece.session)
            return super().__call__(piece)

    with closing(open_index(tmp_path, names)) as index, monkeypatch.context() as patched:
        patched.setattr(levers, "TrialJudge", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            search(index, names)
    with closing(open_index(tmp_path, names)) as index, watched(monkeypatch, levers, "TrialJudge") as asked:
        search(index, names)
        assert asked
        assert set(seen).isdisjoint(piece.session for piece in asked)


def copy_log(folder: Path) -> SqliteLog:
    shutil.copy(varied_log()[0].path, folder / "events.db")
    return SqliteLog(folder / "events.db", create=False)


@pytest.mark.parametrize("harm", ["none", "version", "damaged", "locked", "folder"])
def test_a_file_that_cannot_be_used_is_done_without_and_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    told, names, path = list[str](), varied_log()[1][:2], tmp_path / "tuning.db"
    monkeypatch.setattr(piece_store, "PATIENCE", 0.0)
    with closing(copy_log(tmp_path)) as log:
        with open_reach_index(log, names) as index:
            assert index is not None
            wanted = judge(index, names, log=log)
        holder = sqlite3.connect(path, isolation_level=None)
        if harm == "version":
            monkeypatch.setattr(piece_store, "hash_code", lambda: "other")
        elif harm == "damaged":
            path.write_bytes(b"no database" * 500)
        elif harm == "locked":
            holder.execute("BEGIN IMMEDIATE")
            monkeypatch.setattr(piece_store, "retry_while_busy", lambda path, work: work())
        elif harm == "folder":
            path.unlink()
            path.mkdir()
        with open_reach_index(log, names, warn=told.append) as index:
            assert (index is None) == (harm in ("locked", "folder"))
            assert judge(index, names, log=log) == wanted
        holder.close()
    assert len(told) == (harm != "none")
    assert all(str(path) in line and "\n" not in line for line in told)
    assert os.path.exists(path)

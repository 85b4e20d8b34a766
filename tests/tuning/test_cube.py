"""The cube holds what judging finds, for every value of a key, and judges only what is new."""

from __future__ import annotations

import errno
from contextlib import nullcontext
from pathlib import Path

import duckdb
import pytest

import foregate
from foregate.assembly.home import Home
from foregate.schemas.errors import UsageError
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.review_log import ReviewLog
from foregate.telemetry.queries.reviews import Reviews
from foregate.testing import ScriptedModel, calls, says
from foregate.tuning.cube import FILE, Cube, CubeUnusable, open_cube
from foregate.tuning.reach_index import ReachIndex
from foregate.tuning.sweep import sweep_sessions
from tests.tuning.test_sweep import KEYS, label_calls
from tests.varied import varied_log

KEY = "narration.min_chars"


def build_cube(folder: Path, index: ReachIndex) -> Cube:
    return Cube(varied_log()[0], folder, lambda sessions: nullcontext(index), 1)


@pytest.fixture(scope="module")
def index() -> ReachIndex:
    """The tuning index of a few sessions of varied work."""
    log, names = varied_log()
    found = ReachIndex(log, None)
    found.catch_up(names[:8], 1)
    return found


async def test_the_table_of_every_key_is_that_of_judging_all_turns(tmp_path: Path, index: ReachIndex) -> None:
    log, names = varied_log()
    with ReviewLog(tmp_path / "reviews.db") as kept:
        reviews = await label_calls(kept, names[:5], 12)
    with build_cube(tmp_path, index) as cube:
        judged = count_judged(cube, reviews, index)
    assert judged <= sweep_sessions(log, names[5:8], [KEY], reviews, index, 1).judged
    with build_cube(tmp_path, index) as cube:
        assert cube.bring_up(KEY, names[:8]).judged == 0


def count_judged(cube: Cube, reviews: Reviews, index: ReachIndex) -> int:
    """Compare every sweep of a cube with judging all, and return how many turns it judged after the first."""
    log, names = varied_log()
    for key in KEYS:
        assert cube.bring_up(key, names[:5]).sweep(log, reviews) == sweep_sessions(
            log, names[:5], [key], reviews, None, 1
        )
    judged = 0
    for sessions in (names[:8], names[2:6], names[:5]):  # more, some, and those of before
        found = cube.bring_up(KEY, sessions).sweep(log, reviews)
        assert found == sweep_sessions(log, sessions, [KEY], reviews, index, 1)
        judged += found.judged
    return judged


def test_turned_calls_make_up_the_difference_between_two_values(tmp_path: Path, index: ReachIndex) -> None:
    log, names = varied_log()
    cube = build_cube(tmp_path, index)
    view = cube.bring_up(KEY, names[:8])
    points = view.sweep(log, Reviews()).points
    first, last = points[0], points[-1]
    turned, count = view.list_turned(first.low[0], last.low[0], 1000)
    assert len(turned) == count > 0
    assert sum(one.held for one in turned) == last.held - first.held
    assert all(one.held or one.asked for one in turned)
    back, _ = view.list_turned(last.low[0], first.low[0], 1000)
    assert [(one.seq, one.held, one.asked) for one in back] == [(one.seq, -one.held, -one.asked) for one in turned]
    assert view.list_turned(7, 7, 1000) == ([], 0)
    assert view.list_turned(first.low[0], last.low[0], 1) == (turned[:1], count)
    turning = view.count_turning()
    assert set(turning) <= {point.low[0] for point in points}


async def test_of_a_session_that_goes_on_only_what_is_new_is_judged(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(folder)
    (folder / "a.txt").write_text("teh cat\n")
    read = ("read_file", {"path": "a.txt"})
    steps = [step for _ in range(4) for step in (calls(read, text="I look."), says("Done."))]
    sweeps = []
    async with foregate.Agent(model=ScriptedModel(steps), person=foregate.AbsentPerson()) as agent:
        for _ in range(4):
            await agent.run("Look at a.txt.")
            log = Home(tmp_path / "home").open_log()
            names = [agent.session]
            with open_cube(log) as cube:
                sweeps.append(cube.bring_up("scores.risk.effect.observation", names).sweep(log, Reviews()))
                assert sweeps[-1] == sweep_sessions(log, names, sweeps[-1].keys, Reviews(), None, 1)
            log.close()
    assert [one.turns for one in sweeps] == [1, 2, 3, 4]
    assert {one.judged for one in sweeps} <= {0, 1}


@pytest.mark.parametrize("damage", ["header", "blocks", "cut", "stamp", "history"])
def test_a_damaged_cube_is_made_anew(tmp_path: Path, index: ReachIndex, damage: str) -> None:
    log, names = varied_log()
    with build_cube(tmp_path, index) as cube:
        wanted = cube.bring_up(KEY, names[:4]).sweep(log, Reviews())
        cube.connection.execute("CHECKPOINT")
        if damage == "stamp":
            cube.connection.execute("UPDATE notes SET stamp = 'other'")
        elif damage == "history":
            cube.connection.execute("UPDATE covered SET hash = 'other' WHERE session = ?", [names[0]])
    file = tmp_path / FILE
    data = file.read_bytes()
    if damage == "header":
        file.write_bytes(b"no database" * 500)
    elif damage == "blocks":
        file.write_bytes(data[:12288] + bytes(one ^ 255 for one in data[12288:]))
    elif damage == "cut":
        file.write_bytes(data[: len(data) // 2])
    with build_cube(tmp_path, index) as cube:
        found = cube.bring_up(KEY, names[:4]).sweep(log, Reviews())
    assert found == wanted
    assert found.judged > 0


def test_the_database_reads_no_other_file(tmp_path: Path, index: ReachIndex) -> None:
    (tmp_path / "outside.csv").write_text("a\n1\n")
    with build_cube(tmp_path, index) as cube, pytest.raises(duckdb.PermissionException):
        cube.connection.execute("SELECT * FROM read_csv(?)", [str(tmp_path / "outside.csv")])


def test_without_its_libraries_one_sentence_says_how_to_install_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foregate.tuning.cube.find_spec", lambda name: None)
    log = SqliteLog(tmp_path / "events.db")
    with pytest.raises(UsageError, match=r"pip install 'foregate\[tuning\]'"), open_cube(log):
        pass
    log.close()


def test_what_lies_in_the_place_of_the_cube_stays_and_one_sentence_says_so(tmp_path: Path) -> None:
    log, elsewhere = SqliteLog(tmp_path / "events.db"), tmp_path / "elsewhere"
    place = tmp_path / "cube"
    for make in (lambda: place.write_text("mine"), lambda: place.symlink_to(elsewhere)):
        elsewhere.mkdir(exist_ok=True)
        make()
        with pytest.raises(CubeUnusable, match=r"the cube in .*cube cannot be used \(.+\); make room"), open_cube(log):
            pass
        assert list(elsewhere.iterdir()) == []
        place.unlink()
    log.close()


def test_a_cube_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "events.db")
    with pytest.raises(CubeUnusable, match="No space left"), open_cube(log):
        raise OSError(errno.ENOSPC, "No space left on device")
    log.close()

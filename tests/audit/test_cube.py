"""The cube holds what judging finds, for every value of a key, and judges only what is new."""

from __future__ import annotations

import errno
from contextlib import nullcontext
from pathlib import Path

import duckdb
import pytest

import foregate
from foregate.assembly.home import Home
from foregate.audit import cube_table
from foregate.audit.cube import Cube, CubeUnusable, connect, open_cube
from foregate.audit.reach_index import ReachIndex
from foregate.audit.sweep import sweep_sessions
from foregate.schemas.errors import UsageError
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.review.review_log import ReviewLog
from foregate.telemetry.review.reviews import Reviews
from foregate.testing import ScriptedModel, calls, says
from tests.audit.test_sweep import KEYS, label_calls
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
    cube = build_cube(tmp_path, index)
    for key in KEYS:
        assert cube.bring_up(key, names[:5]).sweep(log, reviews) == sweep_sessions(
            log, names[:5], [key], reviews, None, 1
        )
    judged = 0
    for sessions in (names[:8], names[2:6], names[:5]):  # more, some, and those of before
        found = cube.bring_up(KEY, sessions).sweep(log, reviews)
        assert found == sweep_sessions(log, sessions, [KEY], reviews, index, 1)
        judged += found.judged
    assert judged <= sweep_sessions(log, names[5:8], [KEY], reviews, index, 1).judged
    assert build_cube(tmp_path, index).bring_up(KEY, names[:8]).judged == 0


def test_turned_calls_make_up_the_difference_between_two_values(tmp_path: Path, index: ReachIndex) -> None:
    log, names = varied_log()
    view = build_cube(tmp_path, index).bring_up(KEY, names[:8])
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
    monkeypatch.setattr(cube_table, "MOST_FILES", 2)
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
    files = list((tmp_path / "home").glob("cube/*/*.parquet"))
    assert len(files) <= 2


@pytest.mark.parametrize("damage", ["bytes", "contents", "gone", "history"])
def test_a_damaged_cube_is_made_anew(tmp_path: Path, index: ReachIndex, damage: str) -> None:
    log, names = varied_log()
    wanted = build_cube(tmp_path, index).bring_up(KEY, names[:4]).sweep(log, Reviews())
    (file,), contents = tmp_path.glob(f"changes/{KEY}/*.parquet"), tmp_path / "changes" / KEY / "contents.json"
    match damage:
        case "bytes":
            file.write_bytes(file.read_bytes()[:-9] + b"\0" * 9)
        case "contents":
            contents.write_bytes(contents.read_bytes()[:-4])
        case "gone":
            file.unlink()
        case _:
            _, hash_ = log.head_anchor(names[0])
            contents.write_text(contents.read_text().replace(hash_, "0" * 64))
    cube = build_cube(tmp_path, index)
    found = cube.bring_up(KEY, names[:4]).sweep(log, Reviews())
    assert found == wanted
    assert found.judged > 0


def test_the_database_reads_nothing_but_the_folder_of_the_cube(tmp_path: Path) -> None:
    (tmp_path / "outside.csv").write_text("a\n1\n")
    (tmp_path / "cube").mkdir()
    with pytest.raises(duckdb.PermissionException):
        connect(tmp_path / "cube").execute("SELECT * FROM read_csv(?)", [str(tmp_path / "outside.csv")])


def test_without_its_libraries_one_sentence_says_how_to_install_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foregate.audit.cube.find_spec", lambda name: None)
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


def test_a_table_removes_no_file_it_did_not_make(tmp_path: Path, index: ReachIndex) -> None:
    (tmp_path / "recorded").mkdir()
    (tmp_path / "recorded" / "mine.txt").write_text("mine")
    (tmp_path / "recorded" / "007-0123456789abcdef.parquet").write_text("left by a process that ended")
    build_cube(tmp_path, index).bring_up(KEY, varied_log()[1][:2])
    assert (tmp_path / "recorded" / "mine.txt").exists()
    assert not (tmp_path / "recorded" / "007-0123456789abcdef.parquet").exists()

"""A process killed while a command works in a sandbox, is judged or applied: all of it is there once, or nothing is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.work_sandbox import find_work_tier
from foregate.policy.source.load import default_policy
from foregate.schemas.event import Event
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, SandboxEnded, ToolFinished, ToolStarted
from tests.agent.loop.test_killed import Place, driver
from tests.agent.loop.tiers import find_no_more_than_limited
from tests.events import bodies

LINE = r"printf '\nthree\n' >> a.txt; mkdir new; echo x > new/b.txt; echo KEY=1 > .env; echo said"
BEFORE = {"a.txt": "teh cat"}
AFTER = {"a.txt": "teh cat\nthree\n", "new/b.txt": "x\n", ".env": "KEY=1\n"}
POLICY = default_policy()
__all__ = ["driver"]


@pytest.fixture(autouse=True, params=["full", "limited"])
def tier(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> str:
    """What holds the commands; skips where this machine has no such sandboxes."""
    space = LocalWorkspace(folder, tmp_path / "sandboxes")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "limited":
            find_no_more_than_limited(patch.setattr)
        if find_work_tier(space, POLICY)["tier"] != request.param:
            pytest.skip("this machine has no such sandboxes")
    space.close()
    return str(request.param)


def read_files(place: Place) -> dict[str, str]:
    found = (path for path in sorted(place.workspace.rglob("*")) if path.is_file())
    return {str(path.relative_to(place.workspace)): path.read_text() for path in found}


def list_left(place: Place) -> list[Path]:
    return list(place.home.glob("sandboxes/*/run-*"))


def let_time_pass(place: Place) -> None:
    """Have it be so long ago that what sandboxes wrote was written that it is not kept any more."""
    for held in place.home.glob("sandboxes/*/run-*/held"):
        ago = held.stat().st_mtime - POLICY.commands.sandbox.kept - 1
        os.utime(held, (ago, ago))


def count_runs(events: list[Event]) -> int:
    return sum(body.applies is None for body in bodies(events, ToolStarted))


def check_whole(place: Place, events: list[Event]) -> None:
    """Check that what the command changed is there, once, and that every call has one answer."""
    assert read_files(place) == AFTER
    assert bodies(events, OutcomeUnknown) == []
    assert [body.content for body in bodies(events, ToolFinished) if body.ok] == ["said\n"]
    applied = [body.applies for body in bodies(events, ToolStarted) if body.applies is not None]
    assert len(applied) == len(set(applied)) == 1


@pytest.mark.parametrize("how", ["at_once", "written"])
async def test_a_process_killed_after_any_event_of_a_sandbox_is_gone_on_with_and_all_is_there_once(
    how: str, tier: str, tmp_path: Path, driver: subprocess.Popen[str]
) -> None:
    kind: dict[str, Any] = {"shell": LINE, "says": "yes", "tier": tier}
    whole = Place(tmp_path / "whole", driver, **kind)
    assert whole.do()["outcome"] == "completed"
    kinds = [event.kind for event in await whole.log()]
    assert {"sandbox_ended", "need_raised", "need_answered"} <= set(kinds)
    # one tier is killed at once after each odd event, and the other after each even one; once it is written, otherwise
    first = kinds.index("tool_started") + 1 + ((how == "at_once") is (tier == "full"))
    for number in range(first, len(kinds), 2):
        place = Place(tmp_path / str(number), driver, **kind)
        assert place.do(how, number) == "killed"
        left = await place.log()
        lost = "tool_started" in [event.kind for event in left] and not bodies(left, SandboxEnded)
        assert read_files(place) in ((BEFORE, AFTER) if "sandbox" in [one.actor for one in left] else (BEFORE,))
        assert place.do()["outcome"] in ("completed", "over")
        events = await place.log()
        check_whole(place, events)
        assert count_runs(events) == (2 if lost else 1)
        let_time_pass(place)
        await place.undo_all()
        assert read_files(place) == BEFORE
        assert list_left(place) == []


@pytest.mark.parametrize("tier", ["full"], indirect=True)
async def test_nothing_is_left_of_a_command_whose_process_was_killed_while_it_ran(
    tier: str, tmp_path: Path, driver: subprocess.Popen[str]
) -> None:
    line = r"printf '\nmore\n' >> a.txt; : > here; test -e go || exec sleep 98765"
    place = Place(tmp_path / "place", driver, shell=line, says="yes", tier=tier)
    assert place.do("running", "here") == "killed"
    assert read_files(place) == BEFORE
    (place.workspace / "go").touch()
    assert place.do()["outcome"] == "completed"
    events = await place.log()
    assert [body.code for body in bodies(events, CallAnswered)] == ["not_run_cancelled"]
    assert read_files(place) == {"a.txt": "teh cat\nmore\n", "here": "", "go": ""}
    assert list_running("98765") == []


def list_running(word: str) -> list[str]:
    """Return the command lines of processes that hold a word."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if word.encode() in words:
            found.append(" ".join(map(os.fsdecode, words)))
    return found


async def test_a_question_that_was_open_when_its_process_ended_is_asked_again_about_the_same_sandbox(
    tier: str, tmp_path: Path, driver: subprocess.Popen[str]
) -> None:
    place = Place(tmp_path / "place", driver, shell=LINE, says="", tier=tier)
    assert place.do()["outcome"] == "awaiting_approval"
    assert read_files(place) == BEFORE
    assert place.do()["outcome"] == "awaiting_approval"
    place.kind["says"] = "yes"
    assert place.do()["outcome"] == "completed"
    events = await place.log()
    check_whole(place, events)
    assert [event.kind for event in events].count("need_raised") == 1
    assert count_runs(events) == 1


async def test_of_a_sandbox_that_is_gone_when_its_question_is_answered_nothing_is_applied(
    tier: str, tmp_path: Path, driver: subprocess.Popen[str]
) -> None:
    place = Place(tmp_path / "place", driver, shell=LINE, says="", tier=tier)
    assert place.do()["outcome"] == "awaiting_approval"
    (upper,) = list_left(place)
    upper.rename(tmp_path / "elsewhere")
    place.kind["says"] = "yes"
    assert place.do()["outcome"] == "completed"
    events = await place.log()
    assert [body.code for body in bodies(events, CallAnswered)] == ["not_run_cancelled"]
    check_whole(place, events)
    assert count_runs(events) == 2


async def test_what_a_killed_process_left_is_swept_once_it_was_kept_long_enough(
    tier: str, tmp_path: Path, driver: subprocess.Popen[str]
) -> None:
    place = Place(tmp_path / "place", driver, shell=LINE, says="", tier=tier)
    assert place.do()["outcome"] == "awaiting_approval"
    await place.undo_all()
    assert len(list_left(place)) == 1
    let_time_pass(place)
    await place.undo_all()
    assert list_left(place) == []

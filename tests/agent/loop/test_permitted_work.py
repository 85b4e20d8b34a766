"""What a command has changed in its sandbox can be permitted as well: the same command, and no more than was shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate import Agent
from foregate.assembly.home import Home
from foregate.schemas.judgement import Need
from foregate.schemas.permission import Permission
from foregate.schemas.strict_json import get_list, get_object
from foregate.testing import ScriptedModel, ScriptedPerson, calls, says
from tests.policies import policy_with

EACH = policy_with(
    {f"{gate}.mode": "off" for gate in ("narration", "uncertainty", "critique", "plan")} | {"approval.mode": "each"}
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "home"))
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


async def work(folder: Path, line: str, *replies: str) -> list[Need]:
    """Have a line run in a session of its own; return what was asked."""
    person = ScriptedPerson(replies)
    look = [calls(("read_file", {"path": "keep.txt"}))] if (folder / "keep.txt").exists() else []
    steps = [*look, calls(("run_shell", {"command": line}), text="I will run it."), says("done")]
    async with Agent(model=ScriptedModel(steps), workspace=folder, person=person, policy=EACH) as agent:
        await agent.run("Run it, and write, replace or delete what it does.")
    person.finish()
    return list(person.needs)


def list_permits(need: Need) -> list[str]:
    return [name for call in get_list(need.request, "calls") for name in get_object(call, "permits")]


def kept(folder: Path) -> tuple[Permission, ...]:
    return Home.open().open_permissions(folder).list_given()


async def test_the_same_command_with_the_same_files_is_kept_unasked_next_time(home: Path) -> None:
    (need,) = await work(home, "echo one > out.txt", "project")
    assert list_permits(need) == ["project"]
    (given,) = kept(home)
    assert given.words == "keeping what `echo one > out.txt` changes, if that is no more than `out.txt`"
    (home / "out.txt").unlink()
    assert await work(home, "echo one > out.txt") == []
    assert (home / "out.txt").read_text() == "one\n"
    assert await work(home, "echo one > out.txt") == []


@pytest.mark.parametrize("line", ["echo two > out.txt", "echo one > other.txt", "echo one > out.txt; echo x"])
async def test_another_line_asks(home: Path, line: str) -> None:
    await work(home, "echo one > out.txt", "project")
    (home / "out.txt").unlink()
    assert len(await work(home, line, "no")) == 1


async def test_the_same_line_that_does_more_asks(home: Path) -> None:
    (home / "do").mkdir()
    (home / "do" / "list").write_text("a")
    line = "for name in $(cat do/list); do mkdir -p $name; echo x > $name/f; done"
    await work(home, line, "project")
    (home / "do" / "list").write_text("a b")
    assert len(await work(home, line, "no")) == 1
    assert not (home / "b").exists()


async def test_what_a_command_edits_and_an_undo_brings_back_is_permitted_by_name(home: Path) -> None:
    line = "sed -i s/precious/common/ keep.txt"
    (home / "keep.txt").write_text("precious\n")
    (need,) = await work(home, line, "project")
    assert list_permits(need) == ["project"]
    (home / "keep.txt").write_text("precious\n")
    assert await work(home, line) == []
    assert (home / "keep.txt").read_text() == "common\n"


@pytest.mark.parametrize("line", ["rm keep.txt", "mv keep.txt gone.txt", "echo layout > .envrc"])
async def test_what_is_lost_or_runs_by_itself_is_never_offered(home: Path, line: str) -> None:
    (home / "keep.txt").write_text("precious")
    needs = await work(home, line, "no")
    assert [list_permits(need) for need in needs] == [[]]
    assert (home / "keep.txt").read_text() == "precious"

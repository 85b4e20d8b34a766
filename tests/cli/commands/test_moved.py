"""A session whose workspace was moved: it goes on where a person says it is now, and nowhere else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import foregate
from foregate.assembly.home import Home
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.schemas.event_body import PolicyChanged
from foregate.testing import ScriptedModel, calls, says
from tests.cli.conftest import Cli
from tests.events import bodies

READ = ("read_file", {"path": "a.txt"})
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})


@pytest.fixture
def name(home: Path) -> str:
    """A session that read a file and edited it."""
    steps = [calls(READ, text="I read a.txt to fix the typo."), calls(EDIT, text="I fix it."), says("Fixed.")]
    with foregate.Agent(model=ScriptedModel(steps)) as agent:
        assert agent.run_sync("fix teh in a.txt").status == "completed"
        return agent.session


@pytest.fixture
def moved(name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where its workspace is now."""
    monkeypatch.chdir(tmp_path)
    return folder.rename(tmp_path / "moved")


def test_a_change_is_taken_back_where_the_workspace_is_now(cli: Cli, name: str, moved: Path) -> None:
    code, _, err = cli("undo", name)
    assert (code, "cannot be opened" in err) == (2, True)
    code, out, err = cli("undo", name, "--workspace", str(moved))
    assert (code, "undone" in out, "1 of 1 files that the session knew are as they were" in err) == (0, True, True)
    assert (moved / "a.txt").read_text() == "teh cat\n"
    assert cli("audit", "verify", name)[0] == 0


def test_the_next_process_finds_the_workspace_where_it_was_said_to_be(
    cli: Cli,
    name: str,
    moved: Path,
) -> None:
    assert cli("resume", name, "--workspace", str(moved))[0] == 0
    code, out, _ = cli("resume", name)
    assert (code, str(moved) in out.replace("\n", "").replace(" ", "") or moved.name in out) == (0, True)


@pytest.mark.parametrize("content", [None, "another cat\n"])
def test_a_folder_that_is_evidently_another_is_refused_and_nothing_is_written(
    cli: Cli,
    name: str,
    moved: Path,
    tmp_path: Path,
    content: str | None,
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    if content is not None:
        (other / "a.txt").write_text(content)
    before = cli("audit", "verify", name, "--all")[1]
    for command in ("resume", "undo"):
        code, _, err = cli(command, name, "--workspace", str(other))
        assert (code, err.count("\n")) == (2, 1)
        assert "none of the 1 files that the session knew is there as it was" in err
    assert cli("audit", "verify", name, "--all")[1] == before


async def test_what_was_seen_before_counts_no_more_after_a_move(home: Path, name: str, moved: Path) -> None:
    again = ("edit_file", {"path": "a.txt", "old": "cat", "new": "dog"})
    steps: list[Any] = [calls(again, text="I change a.txt as you asked."), says("I have to look first.")]
    opened = await open_session(SessionOptions(model=ScriptedModel(steps), resume=name, moved_to=moved))
    from foregate.agent.loop.runner import run

    await run(opened.session, "replace cat with dog in a.txt")
    events = await opened.session.log.read()
    assert [body.workspace for body in bodies(events, PolicyChanged) if body.workspace] == [str(moved)]
    assert opened.session.state.ledger.resources()
    assert any("missing_pre_execution_evidence" in message.text for message in opened.session.state.messages)
    await opened.close()
    shutil.rmtree(moved)


async def test_a_session_resumed_from_elsewhere_has_the_permissions_of_its_own_workspace(
    home: Path, name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened = await open_session(SessionOptions(model=ScriptedModel([]), resume=name))
    assert opened.session.permissions.path == Home.open().open_permissions(folder).path
    await opened.close()

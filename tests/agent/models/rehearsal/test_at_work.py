"""The rehearsal model in real sessions over a real repository, as a chat without an endpoint has it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.workspace.work_sandbox import find_work_tier
from foregate.assembly.open import OpenSession, open_session
from foregate.assembly.setting import SessionOptions
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.telemetry.queries.decisions import read_decisions


@pytest.fixture
def project(folder: Path) -> Path:
    """The workspace with a flawed file and an old log, committed."""
    (folder / "a.txt").write_text("teh cat\n")
    (folder / "logs").mkdir()
    (folder / "logs" / "old.log").write_text("old\n")
    for words in (["init", "-q"], ["add", "."], [*AUTHOR, "commit", "-qm", "begin"]):
        subprocess.run(["git", *words], cwd=folder, check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})
    return folder


@pytest.fixture
async def agent(project: Path, tmp_path: Path) -> AsyncIterator[OpenSession]:
    """A session as a chat without an endpoint opens it, with a person who says yes."""
    setting = SessionOptions(workspace=project, person=Yes(), environ={"FOREGATE_HOME": str(tmp_path / "home")})
    opened = await open_session(setting)
    yield opened
    await opened.close()


AUTHOR = ["-c", "user.name=t", "-c", "user.email=t@example.org"]


class Yes:
    """Says yes to whatever asks, and counts."""

    def __init__(self) -> None:
        self.asked = 0

    async def answer(self, need: Need) -> Reply | None:
        self.asked += 1
        return Reply("yes" if need.gate == "approval" else "stop")


async def test_a_list_of_maintenance_goes_through_with_a_prompt_for_the_program_alone_and_no_hold(
    agent: OpenSession, folder: Path
) -> None:
    text = 'fix the typo teh -> the in a.txt; delete stale logs in logs; run python3 -c "print(6 * 7)"; commit "tidy"'
    outcome = await run(agent.session, text)
    assert (outcome.status, "42" in outcome.text) == ("completed", True)
    assert (folder / "a.txt").read_text() == "the cat\n"
    assert not (folder / "logs" / "old.log").exists()
    events = await agent.session.log.read()
    assert not [event for event in events if event.kind == "call_answered"]
    assert isinstance(agent.session.person, Yes)
    has_sandbox = find_work_tier(agent.session.workspace, agent.session.policy)["tier"] == "full"
    assert agent.session.person.asked == (0 if has_sandbox else 1)


async def test_writing_renaming_reading_and_remembering_work_on_the_real_workspace(
    agent: OpenSession, folder: Path
) -> None:
    text = 'create b.txt with "hello"; append "more" to b.txt; rename b.txt to c.txt; read it; create folder docs'
    outcome = await run(agent.session, text)
    assert outcome.status == "completed"
    assert (folder / "c.txt").read_text() == "hello\nmore\n"
    assert "c.txt:\nhello\nmore" in outcome.text
    assert (folder / "docs").is_dir()
    await run(agent.session, "remember colour: blue")
    assert "blue" in (await run(agent.session, "recall colour")).text


async def test_looking_around_works_on_the_real_workspace(agent: OpenSession) -> None:
    outcome = await run(agent.session, "list files in logs; search cat; explain a.txt; status; diff; log; run ls")
    assert outcome.status == "completed"
    for shown in ("logs/old.log", "a.txt", "teh cat", "begin"):
        assert shown in outcome.text


async def test_a_vague_request_is_asked_back_and_the_answer_is_acted_on(agent: OpenSession, folder: Path) -> None:
    assert (await run(agent.session, "clean this up")).status == "needs_input"
    assert (folder / "logs" / "old.log").exists()
    assert (await run(agent.session, "logs/")).status == "completed"
    assert not (folder / "logs" / "old.log").exists()


async def test_a_poem_is_given_in_words_and_no_file_is_written(agent: OpenSession, folder: Path) -> None:
    outcome = await run(agent.session, "write a poem about gates")
    assert outcome.status == "completed"
    assert "gate" in outcome.text
    codes = [d.code for d in read_decisions(await agent.session.log.read())]
    assert "text_only_turn_side_effecting_tool_drift" in codes
    assert {path.name for path in folder.iterdir()} == {".git", "a.txt", "logs"}


async def test_a_delegated_request_is_done_by_a_child(agent: OpenSession) -> None:
    outcome = await run(agent.session, 'delegate "read a.txt"')
    assert "teh cat" in outcome.text


SCRIPT = "import sys\n\n\ndef main(\n    words: list[str],\n) -> int:\n    return len(words)\n"
DOCUMENTED = SCRIPT.replace("    return", '    """Run the program."""\n    return')


async def test_a_docstring_is_added_to_the_function_of_the_file_just_read(agent: OpenSession, folder: Path) -> None:
    (folder / "main.py").write_text(SCRIPT)
    text = "Read main.py and add docstring to the main() function"
    assert (await run(agent.session, text)).status == "completed"
    assert (folder / "main.py").read_text() == DOCUMENTED
    outcome = await run(agent.session, text)
    assert "has a docstring already" in outcome.text
    assert (folder / "main.py").read_text() == DOCUMENTED


@pytest.mark.parametrize("text", ["def main(): pass\n", "int main() {}\n", "def other():\n    pass\n", "def main(:\n"])
async def test_a_docstring_without_one_place_for_it_changes_nothing(
    agent: OpenSession, folder: Path, text: str
) -> None:
    (folder / "main.py").write_text(text)
    await run(agent.session, "add a docstring to main in main.py")
    assert (folder / "main.py").read_text() == text


async def test_failing_tests_are_run_and_the_place_they_name_is_shown(agent: OpenSession, folder: Path) -> None:
    (folder / "Makefile").write_text("test:\n\tpython3 check.py\n")
    (folder / "check.py").write_text("words = []\nassert words, 'no words'\n")
    outcome = await run(agent.session, "Debug the failing integration test")
    assert "AssertionError: no words" in outcome.text
    assert "is line 2 of" in outcome.text
    assert "assert words" in outcome.text
    (folder / "check.py").write_text("print('fine')\n")
    assert "The tests pass" in (await run(agent.session, "debug the failing test")).text


async def test_changes_are_committed_only_where_there_are_some(agent: OpenSession, folder: Path) -> None:
    text = "Check if there are uncommitted changes, and if so, commit them"
    assert "nothing to commit" in (await run(agent.session, text)).text
    (folder / "a.txt").write_text("new\n")
    assert (await run(agent.session, text)).status == "completed"
    assert "nothing to commit" in (await run(agent.session, text)).text

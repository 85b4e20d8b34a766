"""What a command changes is judged as it is, and in the workspace only when it was let through; run for real."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.loop.undo import undo
from foregate.agent.models.scripted import ScriptedPerson, calls, says
from foregate.agent.session.session import Session
from foregate.agent.survey.git_losses import GitLosses
from foregate.agent.tools.commands import run_shell
from foregate.agent.workspace.work_sandbox import find_work_tier
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.source.load import default_policy
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.event_body import CallAnswered, ToolFinished, ToolStarted
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from tests.agent.loop.tiers import find_no_more_than_limited
from tests.conftest import OpenSession
from tests.events import bodies

POLICY = default_policy()
Play = Callable[..., Awaitable[Session]]
IN_FULL = pytest.mark.parametrize("tier", ["full"], indirect=True)
IN_LIMITED = pytest.mark.parametrize("tier", ["limited"], indirect=True)


@pytest.fixture(params=["full", "limited"])
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What holds the commands; where it is less than what this machine has, nothing finds more."""
    if request.param == "limited":
        find_no_more_than_limited(monkeypatch.setattr)
    return str(request.param)


@pytest.fixture
def play(open_session: OpenSession, workspace: Workspace, tier: str) -> Play:
    """Plays a session in which the model sends lines to the shell, one in each response, and then ends."""
    if find_work_tier(workspace, POLICY)["tier"] != tier:
        pytest.skip("this machine has no such sandboxes")

    async def played(
        request: str, *lines: str, person: Any = None, milliseconds: int = 20_000, ends: bool = True, **more: Any
    ) -> Session:
        steps = [calls(("run_shell", {"command": line, "timeout_ms": milliseconds, **more})) for line in lines]
        session = await open_session(
            *steps,
            *([says("done")] if ends else []),
            tools=[run_shell(workspace, POLICY)],
            person=person or ScriptedPerson([]),
        )
        await run(session, request)
        return session

    return played


def commit_all(folder: Path) -> None:
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        run_git(folder, *words)


def run_git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=folder, check=True)


def read_commits(folder: Path) -> str:
    """Return the subjects of the commits of a repository that lacks nothing."""
    subprocess.run(["git", "fsck", "--strict"], cwd=folder, check=True)
    return subprocess.check_output(["git", "log", "--format=%s"], cwd=folder, text=True)


async def list_kinds(session: Session) -> list[str]:
    """Return the kinds of events from the first call on."""
    kinds = [event.kind for event in await session.log.read()]
    return kinds[kinds.index("tool_started") :]


async def find_answer(session: Session) -> CallAnswered:
    return next(event.body for event in await session.log.read() if isinstance(event.body, CallAnswered))


async def test_what_a_command_makes_and_edits_is_applied_unasked_and_taken_back_as_one(
    play: Play, folder: Path
) -> None:
    (folder / "a.txt").write_text("one\ntwo\n")
    session = await play("add a line and a file", "echo three >> a.txt; mkdir new; echo x > new/b.txt; echo said")
    assert (folder / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert (folder / "new/b.txt").read_text() == "x\n"
    assert (await list_kinds(session))[:5] == [
        "tool_started",
        "sandbox_ended",
        "turn_judged",
        "tool_started",
        "tool_finished",
    ]
    report = await undo(session)
    assert report.done, report
    assert (folder / "a.txt").read_text() == "one\ntwo\n"
    assert not (folder / "new").exists()


@IN_FULL
async def test_hard_links_that_part_because_a_command_wrote_to_one_of_them_are_named(play: Play, folder: Path) -> None:
    (folder / "a.txt").write_text("one\n")
    (folder / "b.txt").hardlink_to(folder / "a.txt")
    session = await play("add a line to a.txt", "echo two >> a.txt; echo said")
    assert (folder / "b.txt").read_text() == "one\n"
    (finished,) = bodies(await session.log.read(), ToolFinished)
    assert finished.content == "said\nnot kept: hard links of `a.txt`"


async def test_a_command_that_changes_nothing_is_answered_without_a_turn_of_its_own(play: Play, folder: Path) -> None:
    session = await play("run it", "python3 -c 'print(6 * 7)'")
    assert (await list_kinds(session))[:2] == ["tool_started", "tool_finished"]


async def test_the_model_reads_what_the_command_said_and_nothing_else(play: Play, folder: Path) -> None:
    session = await play("make it", "echo x > b.txt; echo said")
    (finished,) = [e.body for e in await session.log.read() if isinstance(e.body, ToolFinished)]
    assert finished.content == "said\n"
    assert [change.resource.id for change in finished.changes] == ["b.txt"]


async def test_what_nobody_has_read_is_not_deleted_but_shown(play: Play, folder: Path) -> None:
    (folder / "a.txt").write_text("kept\n")
    session = await play("delete a.txt", "rm a.txt")
    assert (folder / "a.txt").read_text() == "kept\n"
    answer = await find_answer(session)
    assert (answer.code, answer.gate) == ("missing_pre_execution_evidence", "evidence")
    assert answer.observed is not None
    assert "-kept" in answer.observed.output


async def test_what_was_shown_is_deleted_when_the_same_call_comes_again(play: Play, folder: Path) -> None:
    (folder / "a.txt").write_text("kept\n")
    await play("delete a.txt", "rm a.txt", "rm a.txt")
    assert not (folder / "a.txt").exists()


async def test_a_person_is_asked_about_a_deletion_they_did_not_speak_of(play: Play, folder: Path) -> None:
    (folder / "a.txt").write_text("kept\n")
    person = ScriptedPerson(["no"])
    session = await play("make a new start", "rm a.txt", "rm a.txt", person=person)
    assert (folder / "a.txt").exists()
    answers = [event.body for event in await session.log.read() if isinstance(event.body, CallAnswered)]
    assert [answer.code for answer in answers] == ["missing_pre_execution_evidence", "approval_denied"]


async def test_the_risk_on_a_sheet_is_that_of_what_was_changed(play: Play, folder: Path) -> None:
    (folder / "a.txt").write_text("kept\n")
    person = ScriptedPerson(["no", "no"])
    await play("make a new start", "echo export A=1 > .envrc", "rm a.txt", "rm a.txt", person=person)
    made, deleted = (need.request["calls"][0]["risk"] for need in person.needs)
    assert made != deleted


async def test_what_git_can_bring_back_is_not_asked_about(play: Play, folder: Path) -> None:
    (folder / "a.txt").write_text("kept\n")
    commit_all(folder)
    await play("make a new start", "rm a.txt", "rm a.txt")
    assert not (folder / "a.txt").exists()


async def test_a_secret_file_is_written_only_after_a_yes(play: Play, folder: Path) -> None:
    session = await play("set it up", "echo KEY=1 > .env", person=ScriptedPerson(["no"]))
    assert not (folder / ".env").exists()
    assert (await find_answer(session)).code == "approval_denied"


async def test_a_file_that_runs_by_itself_is_written_only_after_a_yes(play: Play, folder: Path) -> None:
    line = "mkdir -p .github/workflows && echo 'on: push' > .github/workflows/a.yml"
    session = await play("set it up", line, person=ScriptedPerson(["no"]))
    assert not (folder / ".github").exists()
    assert (await find_answer(session)).code == "approval_denied"


async def test_of_a_manifest_only_what_runs_by_itself_asks(play: Play, folder: Path) -> None:
    text, asked = '{\n"name": "a"\n}\n', ScriptedPerson(["no"])
    (folder / "package.json").write_text(text)
    await play("name it", """sed -i 's/"a"/"b"/' package.json""")
    named = (folder / "package.json").read_text()
    assert named == text.replace('"a"', '"b"')
    await play("go on", """sed -i 's/^}/, "scripts": {"postinstall": "x"}}/' package.json""", person=asked)
    assert (folder / "package.json").read_text() == named


async def test_with_nobody_there_what_asks_is_thrown_away(
    open_session: OpenSession, workspace: Workspace, folder: Path, play: Play
) -> None:
    session = await open_session(
        calls(("run_shell", {"command": "echo KEY=1 > .env"})), says("done"), tools=[run_shell(workspace, POLICY)]
    )
    await run(session, "set it up")
    assert list(folder.iterdir()) == []
    assert (await find_answer(session)).code == "approval_required"


async def test_what_somebody_saved_meanwhile_is_not_overwritten_and_the_model_is_told(play: Play, folder: Path) -> None:
    (folder / "a.txt").write_text("one\n")

    def save_and_say_yes(need: Need) -> Reply:
        (folder / "a.txt").write_text("saved meanwhile\n")
        return Reply("yes")

    person = ScriptedPerson([save_and_say_yes])
    session = await play("go on", "echo two >> a.txt; echo KEY=1 > .env", person=person)
    assert (folder / "a.txt").read_text() == "saved meanwhile\n"
    assert not (folder / ".env").exists()
    answer = await find_answer(session)
    assert answer.code == "stale_evidence"
    assert "`a.txt`" in answer.message


async def test_nothing_of_a_command_that_ran_out_of_time_is_kept(play: Play, folder: Path) -> None:
    session = await play("run it", "echo x > a.txt; exec sleep 60", milliseconds=200)
    assert list(folder.iterdir()) == []
    assert [e.body.applies for e in await session.log.read() if isinstance(e.body, ToolStarted)] == [None]


async def test_a_link_that_leads_out_is_left_out_and_the_rest_is_applied(play: Play, folder: Path) -> None:
    session = await play("make it", "ln -s /etc/passwd out; echo x > b.txt")
    assert [path.name for path in folder.iterdir()] == ["b.txt"]
    (finished,) = [e.body for e in await session.log.read() if isinstance(e.body, ToolFinished)]
    assert "`out` is a link that leads out of the workspace" in finished.content


@pytest.mark.parametrize("typed", ["", "a.txt", "stash"])
async def test_a_stash_nobody_spoke_of_is_dropped_only_by_its_name(play: Play, folder: Path, typed: str) -> None:
    def answer(need: Need) -> Reply:
        (asked,) = need.request["calls"]
        return Reply("yes", named={asked["call"]: (typed,)})

    (folder / "a.txt").write_text("one\n")
    commit_all(folder)
    (folder / "a.txt").write_text("two\n")
    run_git(folder, "stash", "-q")
    await play("run the tests", "true; git stash drop", person=ScriptedPerson([answer]))
    assert (folder / ".git/refs/stash").exists() is (typed != "stash")


async def test_a_stash_of_the_same_task_is_dropped_unasked(play: Play, folder: Path) -> None:
    (folder / "a.txt").write_text("one\n")
    commit_all(folder)
    (folder / "a.txt").write_text("two\n")
    stash = "git -c user.name=a -c user.email=a@b.c stash -q"
    await play("run the tests", stash, "git stash apply -q", "git stash drop -q")
    assert (folder / "a.txt").read_text() == "two\n"
    assert not (folder / ".git/refs/stash").exists()


@IN_FULL
@pytest.mark.parametrize(
    "line",
    [
        "rm -rf .git; git init -q",
        "mkdir node_modules; mv .git node_modules/g; git init -q",
        "git gc -q; rm -f .git/objects/pack/*",
        "export EMAIL=a@b.c; git commit -q --amend -m y; git reflog expire --expire=now --all; git gc -q --prune=now",
    ],
)
async def test_commits_that_would_be_nowhere_are_shown_first_and_then_asked_about(
    play: Play, folder: Path, line: str
) -> None:
    (folder / "go.sh").write_text(f"{line}\n")
    commit_all(folder)
    person = ScriptedPerson(["no"])
    await play("set the project up", "sh go.sh", "sh go.sh", person=person)
    assert len(person.needs) == 1
    assert read_commits(folder) == "x\n"


@IN_FULL
async def test_a_repository_is_packed_anew_unasked_for_that_loses_nothing(play: Play, folder: Path) -> None:
    (folder / "a.txt").write_text("one\n")
    commit_all(folder)
    await play("go on", "git gc -q", "git repack -adq && git gc -q")
    assert len(list(folder.glob(".git/objects/pack/*.pack"))) == 1
    assert read_commits(folder) == "x\n"


@IN_FULL
async def test_a_folder_with_a_secret_the_command_could_not_see_is_neither_moved_nor_deleted(
    play: Play, folder: Path
) -> None:
    (folder / "conf").mkdir()
    (folder / "conf/.env").write_text("KEY=1\n")
    for line in ("mv conf conf2", "rm -rf conf"):
        await play("tidy conf up", line, person=ScriptedPerson(["yes"] * 3))
        assert (folder / "conf/.env").read_text() == "KEY=1\n"


async def test_a_deletion_for_a_request_that_says_nothing_of_it_is_asked_about_before_it_runs(
    play: Play, folder: Path
) -> None:
    (folder / "logs").mkdir()
    (folder / "logs/a.log").write_text("kept\n")
    session = await play("Clean this up.", "rm -rf logs tmp build", ends=False)
    assert (folder / "logs/a.log").exists()
    events = await session.log.read()
    assert "tool_started" not in [event.kind for event in events]
    assert (await find_answer(session)).code == "uncertainty_clarification"


async def test_a_named_file_and_a_named_folder_are_deleted_together_and_nobody_is_asked(
    play: Play, folder: Path
) -> None:
    (folder / "build").mkdir()
    (folder / "app.log").write_text("started\n")
    await play("Take build and app.log away with rm -rf; keep everything else.", "cat app.log", "rm -rf build app.log")
    assert list(folder.iterdir()) == []


@IN_FULL
async def test_what_wants_the_network_is_asked_about_and_told_how_to_request_it(play: Play, folder: Path) -> None:
    line = "python3 -c \"import socket; socket.create_connection(('example.invalid', 443))\""
    session = await play("run it", line)
    (finished,) = [e.body for e in await session.log.read() if isinstance(e.body, ToolFinished)]
    assert "request access `network:example.invalid`" in finished.content


async def test_nothing_runs_with_access_outside_that_nobody_has_said_yes_to(play: Play, folder: Path) -> None:
    session = await play("run it", "echo x > a.txt", access=["network:example.org"])
    assert list(folder.iterdir()) == []
    assert "tool_started" not in [event.kind for event in await session.log.read()]


@IN_FULL
async def test_a_cache_of_programs_stays_with_the_sandboxes_and_is_there_in_the_next(play: Play, folder: Path) -> None:
    (folder / "lib.py").write_text("x = 1\n")
    look = "python3 -c 'import lib' && ls __pycache__ && mkdir .tox && cp lib.py .tox"
    session = await play("run it", look, "ls __pycache__ > found.txt")
    assert sorted(path.name for path in folder.iterdir()) == ["found.txt", "lib.py"]
    assert (folder / "found.txt").read_text().startswith("lib.cpython")
    kinds = await list_kinds(session)
    assert kinds[:2] == ["tool_started", "tool_finished"]


@pytest.mark.parametrize("delete", ["rm -r __pycache__", "rm __pycache__/*"])
async def test_a_cache_that_is_deleted_again_is_gone_from_the_sandboxes_alone(
    play: Play, folder: Path, delete: str
) -> None:
    (folder / "lib.py").write_text("x = 1\n")
    await play(
        "delete the cache", "python3 -c 'import lib'", f"{delete}; echo x > made.txt", "find -name '*.pyc' > found.txt"
    )
    assert (folder / "made.txt").read_text() == "x\n"
    assert (folder / "found.txt").read_text() == ""


async def test_a_cache_of_the_workspace_is_deleted_with_what_sandboxes_made_of_it(play: Play, folder: Path) -> None:
    (folder / "lib.py").write_text("x = 1\n")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/old.pyc").write_text("old")
    session = await play(
        "delete the cache", "echo new > __pycache__/old.pyc; echo > __pycache__/b.pyc", "rm -r __pycache__"
    )
    assert not (folder / "__pycache__").exists()
    assert [body.ok for body in [e.body for e in await session.log.read()] if isinstance(body, ToolFinished)] == [
        True
    ] * 2


@pytest.mark.parametrize(("line", "cwd"), [("in/tool > said", "."), ("./tool > ../said", "in")])
async def test_a_script_of_the_project_starts_with_an_interpreter_that_path_does_not_know(
    play: Play, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, cwd: str
) -> None:
    home = tmp_path / "home"
    for path, text in (
        (home / "envs/a/bin/python3", '#!/bin/sh\ncat "${0%/*}/../lib/python3/os.py"\n'),
        (home / "envs/a/lib/python3/os.py", "started\n"),
        (folder / "in/tool", f"#!{home}/envs/a/bin/python3\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    await play("run the tool", line, cwd=cwd)
    assert (folder / "said").read_text() == "started\n"


async def test_where_git_cannot_be_asked_what_changes_its_folder_asks(
    play: Play, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.txt").write_text("one\n")
    commit_all(folder)

    def fail(self: GitLosses) -> Iterator[str]:
        raise WorkspaceError("git cannot be asked")

    monkeypatch.setattr(GitLosses, "list_lost", fail)
    await play("run the tests", "git branch x", person=ScriptedPerson(["no"]))
    assert not (folder / ".git/refs/heads/x").exists()

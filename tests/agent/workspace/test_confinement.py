"""Commands that only read run where they can do nothing else, on a machine that has sandboxes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.agent.sandbox.plan import Failure
from foregate.agent.sandbox.starter import SandboxFailed
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.tools.commands import run_command
from foregate.agent.workspace import confinement
from foregate.agent.workspace.confinement import find_tier, plan_sandbox
from foregate.agent.workspace.git_repository import find_repository
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.workspace import MemoryWorkspace, Workspace
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.event import TurnJudged
from foregate.schemas.event_body import ToolStarted
from foregate.schemas.tool_call import ToolResult
from tests.agent.tools.builtin.test_git import git
from tests.agent.tools.test_git_nested import nested
from tests.conftest import OpenSession
from tests.events import bodies
from tests.policies import EVERYTHING_OFF, policy_with

_SHORT = default_policy().commands.model_dump(mode="json")["read_only"]
WHO = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
LISTED = policy_with({"commands.read_only": {**_SHORT, **{name: {"options": ["-c"]} for name in ("touch", "sh")}}})
"""A policy of somebody who vouches for far too much."""


@pytest.fixture(autouse=True)
def full(tmp_path_factory: pytest.TempPathFactory) -> None:
    """These tests are about machines with sandboxes."""
    space = LocalWorkspace(tmp_path_factory.mktemp("probe"))
    probe = find_tier(space, default_policy())
    space.close()
    if probe["tier"] != "full":
        pytest.skip(f"there is no sandbox here: {probe['reason']}")


async def look(workspace: Workspace, *argv: str, policy: Policy = LISTED) -> ToolResult:
    return await run_command(workspace, policy).run({"argv": list(argv)})


@pytest.mark.parametrize("argv", [("touch", "made"), ("sh", "-c", "echo x >made"), ("sh", "-c", "mkfifo made")])
async def test_a_program_somebody_vouched_for_changes_nothing_all_the_same(
    folder: Path, workspace: Workspace, argv: tuple[str, ...]
) -> None:
    result = await look(workspace, *argv)
    assert not result.ok
    assert "Read-only" in result.content
    assert list(folder.iterdir()) == []


async def test_a_look_has_no_network_no_home_and_no_secret_it_does_not_name(folder: Path, workspace: Workspace) -> None:
    (folder / ".env").write_text("TOKEN=canary\n")
    (folder / "a.txt").write_text("canary in the text\n")
    assert (await look(workspace, "grep", "-r", "canary", ".")).content == "./a.txt:canary in the text\n"
    assert (await look(workspace, "cat", ".env")).content == "TOKEN=canary\n"
    assert (await look(workspace, "sh", "-c", 'ls -A "$HOME"; echo /sys/class/net/*; echo $(id -u)')).ok


async def test_a_folder_that_is_swapped_with_a_link_leads_nowhere_outside(
    folder: Path, workspace: Workspace, tmp_path: Path
) -> None:
    for name, words in (("outside", "outside"), ("workspace/d", "inside")):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "f.txt").write_text(words)
    os.rename(folder / "d", folder / "real")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for target in ("real", "../outside"):
                (folder / "new").symlink_to(target)
                os.rename(folder / "new", folder / "d")

    (folder / "d").symlink_to("real")
    swapping = threading.Thread(target=swap)
    swapping.start()
    seen = set()
    try:
        for _ in range(40):
            try:
                seen.add((await look(workspace, "cat", "d/f.txt")).content)
            except WorkspaceError:
                continue
    finally:
        stop.set()
        swapping.join()
    assert not [content for content in seen if "outside" in content]


async def test_git_reads_no_objects_from_outside_whatever_the_repository_says(
    folder: Path, workspace: Workspace, tmp_path: Path, policy: Policy
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for place, words in ((other, "canary"), (folder, "own")):
        git(place, "init", "-q")
        (place / "a.txt").write_text(words)
        git(place, "add", "a.txt")
        git(place, "commit", "-qm", words)
    commit = git(other, "rev-parse", "HEAD").strip()
    repository = find_repository(workspace, policy, ".")
    (folder / ".git/objects/info/alternates").write_text(f"{other}/.git/objects\n")
    assert "canary" in git(folder, "show", f"{commit}:a.txt")
    with pytest.raises(WorkspaceError, match=f"bad object {commit}"):
        repository.run("log", "--format=%s", commit)
    assert repository.run("log", "--format=%s").out.bytes() == b"own\n"


async def test_a_folder_of_path_whose_link_leads_into_the_workspace_names_no_program(
    folder: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "ls").write_text("#!/bin/sh\necho posing\n")
    (folder / "ls").chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ls").symlink_to(folder / "ls")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert (await look(workspace, "ls")).content == "ls\n"


def test_a_workspace_that_cannot_be_shown_has_the_tier_none_and_says_why(policy: Policy) -> None:
    probe = find_tier(MemoryWorkspace({}), policy)
    assert (probe["tier"], plan_sandbox(MemoryWorkspace({}), policy)) == ("none", None)
    assert "whole machine" in probe["reason"]


async def test_where_no_sandbox_can_be_made_the_short_list_runs_as_before(
    folder: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise SandboxFailed(Failure(step="machine", number=0, sentence="this machine refuses"))

    monkeypatch.setattr(confinement, "start_program", refuse)
    (folder / "a.txt").write_text("x")
    alone = policy_with({"commands.sandbox.processes": 999})
    assert find_tier(workspace, alone)["tier"] == "none"
    assert (await look(workspace, "cat", "a.txt", policy=alone)).content == "x"


@pytest.mark.parametrize("reads_are_known", [False, True])
async def test_a_sandbox_that_fails_by_a_fault_of_its_own_lets_no_command_run_and_the_next_one_tries_anew(
    reads_are_known: bool,
    folder: Path,
    workspace: Workspace,
    open_session: OpenSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise SandboxFailed(Failure(step="fault", number=0, sentence="the sandbox failed: NameError: x"))

    command = calls(("run_command", {"argv": ["touch", "made"]}))
    # What the probes find out stays for a machine and its bounds, so these are this test's alone.
    alone = policy_with({"commands.sandbox.processes": 997 + reads_are_known})
    if reads_are_known:
        find_tier(workspace, alone)
    tools = [run_command(workspace, alone)]
    session = await open_session(command, says("no"), command, says("yes"), tools=tools, policy=alone)
    with monkeypatch.context() as patch:
        patch.setattr(confinement, "start_program", fail)
        await run(session, "Run `touch made`.")
    assert not (folder / "made").exists()
    judged = bodies(await session.log.read(), TurnJudged)
    problems = [survey.problem for body in judged for survey in body.turn.surveys]
    assert problems == ["nothing ran: the sandbox failed: NameError: x; `foregate doctor` tells more"]
    await run(session, "Run `touch made`.")
    assert (folder / "made").exists()


async def test_the_survey_and_the_start_of_a_call_say_what_holds_the_programs_it_starts(
    folder: Path, workspace: Workspace, open_session: OpenSession
) -> None:
    (folder / "a.txt").write_text("x")
    off = policy_with(EVERYTHING_OFF)
    tools = [tool for tool in builtin_tools(workspace, off) if tool.spec.name == "run_command"]
    wanted = calls(("run_command", {"argv": ["cat", "a.txt"]}), ("read_file", {"path": "a.txt"}))
    session = await open_session(wanted, says("done"), policy=off, tools=tools)
    await run(session, "look at it")
    events = await session.log.read()
    (judged,) = [body for body in bodies(events, TurnJudged) if body.turn.surveys]
    assert [survey.confinement for survey in judged.turn.surveys] == ["full", ""]
    assert {body.tool: body.confinement for body in bodies(events, ToolStarted)} == {
        "run_command": "full",
        "read_file": "",
    }


async def test_what_git_starts_while_it_adds_reaches_nothing_outside_and_changes_no_settings(
    folder: Path, workspace: Workspace, tmp_path: Path, policy: Policy
) -> None:
    """The tool refuses such a repository; here its checks are left out, as if they had been deceived."""
    git(folder, "init", "-q")
    nested(folder / "sub")
    git(folder, "add", "sub")
    outside, inside = tmp_path / "ran", folder / "ran"
    script = folder / "filter"
    script.write_text(f"#!/bin/sh\ntouch {inside}\ntouch {outside}\necho x >> {folder}/.git/config\ncat\n")
    script.chmod(0o755)
    git(folder / "sub", "config", "filter.x.clean", str(script))
    (folder / "sub/.gitattributes").write_text("* filter=x\n")
    (folder / "sub/f").write_text("two\n")
    settings = (folder / ".git/config").read_bytes()
    await find_repository(workspace, policy, ".").run_async("add", "--", "sub", check=False)
    assert inside.exists(), "git did not even start it, so that nothing was tried"
    assert not outside.exists()
    assert (folder / ".git/config").read_bytes() == settings


async def test_git_adds_and_commits_in_its_sandbox_as_it_does_outside(
    folder: Path, workspace: Workspace, policy: Policy
) -> None:
    git(folder, "init", "-q")
    (folder / "a.txt").write_text("one\n")
    repository = find_repository(workspace, policy, ".")
    await repository.run_async("add", "--", "a.txt")
    await repository.run_async("commit", "--message=first", more=dict.fromkeys(WHO, "a@example.org"))
    assert git(folder, "log", "--format=%s %an") == "first a@example.org\n"
    assert git(folder, "status", "--porcelain") == ""
    assert (folder / ".git/index").stat().st_uid == folder.stat().st_uid

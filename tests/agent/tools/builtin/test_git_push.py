"""Pushing on real repositories: to what was judged, by nobody's program, never by force unless that was said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.loop.undo import undo
from foregate.agent.models.scripted import ScriptedPerson, calls, says
from foregate.agent.survey.surveyor import Surveyor
from foregate.agent.tools.git_push import git_push
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Survey, ToolCall, ToolResult
from foregate.schemas.tool_spec import Resource, ResourceKind, build_catalogue
from tests.agent.running import Bench, run_alone
from tests.agent.tools.builtin.test_git import git
from tests.conftest import OpenSession
from tests.policies import policy_with


@pytest.fixture
def repository(folder: Path) -> Path:
    git(folder, "init", "-q", "-b", "main", "work")
    git(folder, "init", "-q", "--bare", "-b", "main", "remote.git")
    work = folder / "work"
    git(work, "remote", "add", "origin", "../remote.git")
    commit(work, "one")
    return work


@pytest.fixture
def tools(workspace: Workspace, policy: Policy) -> Toolbox:
    return Bench(workspace, [git_push(workspace, policy)])


def commit(work: Path, text: str) -> str:
    (work / "a.txt").write_text(text)
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", text)
    return git(work, "rev-parse", "HEAD").strip()


async def push(tools: Toolbox, survey: Survey | None = None, **more: Json) -> ToolResult:
    return await run_alone(
        tools, ToolCall.of("git_push", {"remote": "origin", "branch": "main", "path": "work", **more}), survey
    )


def survey(tools: Toolbox, workspace: Workspace, policy: Policy, **more: Json) -> Survey:
    surveyor = Surveyor(workspace, tools, policy, build_catalogue(list(tools.specs())))
    call = ToolCall.of("git_push", {"remote": "origin", "branch": "main", "path": "work", **more})
    return surveyor.survey_call(call, SessionState())


async def test_a_branch_arrives_at_the_remote(repository: Path, folder: Path, tools: Toolbox) -> None:
    done = await push(tools)
    head = git(repository, "rev-parse", "HEAD").strip()
    assert done.ok, done.content
    assert git(folder / "remote.git", "rev-parse", "main").strip() == head
    assert (done.changes[0].resource, done.changes[0].after) == (Resource(ResourceKind.OTHER, "remote.git"), head)
    assert [(seen.resource, seen.hash) for seen in done.evidence] == [(done.changes[0].resource, head)]


async def test_force_is_used_only_where_it_was_asked_for(repository: Path, folder: Path, tools: Toolbox) -> None:
    commit(repository, "two")
    assert (await push(tools)).ok
    git(repository, "reset", "-q", "--hard", "HEAD~1")
    other = commit(repository, "three")
    for setting, value in (("push", "+refs/heads/*:refs/heads/*"), ("mirror", "true")):
        git(repository, "config", f"remote.origin.{setting}", value)
    refused = await push(tools)
    assert (refused.ok, refused.error) == (False, "not_pushed")
    assert "rejected" in refused.content
    assert (await push(tools, force=True)).ok
    assert git(folder / "remote.git", "rev-parse", "main").strip() == other


def test_the_address_and_the_commit_are_what_is_judged(
    repository: Path, tools: Toolbox, workspace: Workspace, policy: Policy
) -> None:
    head = git(repository, "rev-parse", "HEAD").strip()
    found = survey(tools, workspace, policy)
    assert [(r.kind, r.id, r.access.value) for r in found.resources] == [
        (ResourceKind.OTHER, "remote.git", "send"),
        (ResourceKind.OTHER, f"main at {head}", "observation"),
        (ResourceKind.REPOSITORY, "work", "observation"),
    ]
    git(repository, "remote", "set-url", "--push", "origin", "git@example.org:a/b.git")
    assert survey(tools, workspace, policy).resources[0].id == "git@example.org:a/b.git"


async def test_what_changed_since_it_was_judged_is_not_pushed(
    repository: Path, folder: Path, tools: Toolbox, workspace: Workspace, policy: Policy
) -> None:
    found = survey(tools, workspace, policy)
    commit(repository, "two")
    assert "leads elsewhere than when it was judged" in (await push(tools, found)).content
    found = survey(tools, workspace, policy)
    git(folder, "init", "-q", "--bare", "other.git")
    git(repository, "remote", "set-url", "origin", "../other.git")
    assert "leads elsewhere than when it was judged" in (await push(tools, found)).content
    assert os.listdir(folder / "other.git/refs/heads") == os.listdir(folder / "remote.git/refs/heads") == []


@pytest.mark.parametrize(
    ("remote", "branch", "why"),
    [
        ("gone", "main", "no remote `gone`"),
        ("--exec=x", "main", "no plain name"),
        ("../remote.git", "main", "no plain name"),
        ("ext::sh -c x", "main", "no plain name"),
        ("origin", "--mirror", "no plain branch name"),
        ("origin", ":main", "no plain branch name"),
        ("origin", "+main", "no plain branch name"),
        ("origin", "gone", "is no commit"),
        ("origin", "../../x", "no plain branch name"),
    ],
)
async def test_only_a_remote_and_a_branch_of_the_repository_are_names(
    repository: Path, tools: Toolbox, remote: str, branch: str, why: str
) -> None:
    done = await push(tools, remote=remote, branch=branch)
    assert not done.ok
    assert why in done.content


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% ran",
        "git://example.org/x",
        "http://example.org/x",
        "https://user:word@example.org/x",
        "ssh://-oProxyCommand=touch/x",
        "-oProxyCommand=x:y",
        "file://example.org/x",
        "/etc",
        "../../nothing.git",
        "../../other",
        "../../other/.git",
        ".",
        "../work",
        "../work/.git",
        "https://exa mple.org/x",
    ],
)
async def test_no_other_address_is_pushed_to(repository: Path, tools: Toolbox, tmp_path: Path, url: str) -> None:
    git(tmp_path, "init", "-q", "other")
    git(repository, "config", "remote.origin.url", url)
    done = await push(tools)
    assert not done.ok
    assert done.error == "WorkspaceError"
    assert "could lead" not in done.content
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.parametrize(
    "setting",
    [
        "url.../other.git.insteadOf",
        "url.../other.git.pushInsteadOf",
        "http.proxy",
        "http.https://example.org/.sslVerify",
        "credential.https://example.org.helper",
        "remote.../remote.git.receivepack",
        "remote.../remote.git.url",
    ],
)
async def test_a_setting_that_could_lead_elsewhere_is_named(repository: Path, tools: Toolbox, setting: str) -> None:
    git(repository, "config", setting, "../remote.git")
    done = await push(tools)
    assert "could lead a push elsewhere" in done.content
    assert not done.ok


async def test_several_addresses_are_refused(repository: Path, tools: Toolbox) -> None:
    git(repository, "config", "--add", "remote.origin.url", "../remote.git")
    assert "several addresses" in (await push(tools)).content


@pytest.mark.parametrize("inside", [True, False])
async def test_nothing_either_side_names_is_run(
    repository: Path, folder: Path, tools: Toolbox, tmp_path: Path, inside: bool
) -> None:
    """Hooks, receive-pack, ssh and refs commands of both repositories point at a script that leaves a mark."""
    script, ran = tmp_path / "script", tmp_path / "ran"
    script.write_text(f"#!/bin/sh\ntouch {ran}\n")
    script.chmod(0o755)
    remote = folder / "remote.git"
    if not inside:
        remote = remote.rename(tmp_path / "remote.git")
        git(repository, "remote", "set-url", "origin", str(remote))
    for place in (repository / ".git/hooks", remote / "hooks"):
        for hook in ("pre-push", "pre-receive", "update", "post-receive", "post-update", "reference-transaction"):
            (place / hook).write_text(script.read_text())
            (place / hook).chmod(0o755)
    (remote / "objects/info/alternates").write_text(str(repository / ".git/objects") + "\n")
    for where, setting in (
        (repository, "remote.origin.receivepack"),
        (repository, "remote.origin.vcs"),
        (repository, "core.sshCommand"),
        (repository, "core.gitProxy"),
        (repository, "gpg.program"),
        (remote, "core.alternateRefsCommand"),
        (remote, "core.fsmonitor"),
        (remote, "core.hooksPath"),
    ):
        value = str(remote / "hooks") if setting == "core.hooksPath" else str(script)
        git(where, "config", setting, value)
    git(repository, "config", "push.gpgSign", "true")
    done = await push(tools)
    assert done.ok, done.content
    assert not ran.exists()


async def test_a_remote_that_reaches_outside_by_a_link_is_refused(
    repository: Path, folder: Path, tools: Toolbox, tmp_path: Path
) -> None:
    (folder / "remote.git/refs/heads").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (folder / "remote.git/refs/heads").symlink_to(tmp_path / "elsewhere")
    assert "is a link in git's own folder" in (await push(tools)).content
    assert os.listdir(tmp_path / "elsewhere") == []


async def test_a_push_needs_one_yes_and_cannot_be_undone(
    repository: Path, folder: Path, workspace: Workspace, policy: Policy, open_session: OpenSession
) -> None:
    alone = policy_with({"plan.mode": "off", "critique.mode": "off"})
    wanted = ("git_push", {"remote": "origin", "branch": "main", "path": "work"})
    for choice, arrived in (("no", []), ("yes", ["main"])):
        person = ScriptedPerson([choice])
        steps = [calls(wanted, text="I will push main to origin."), says("done")]
        tools = [git_push(workspace, policy)]
        session = await open_session(*steps, tools=tools, policy=alone, person=person, name=choice)
        await run(session, "push main to origin in work")
        assert os.listdir(folder / "remote.git/refs/heads") == arrived
    assert not (await undo(session)).done


async def test_what_the_remote_has_already_is_no_change(repository: Path, tools: Toolbox) -> None:
    assert len((await push(tools)).changes) == 1
    again = await push(tools)
    assert (again.ok, again.changes, "already" in again.content) == (True, (), True)


@pytest.mark.parametrize("said", ["{}/elsewhere.git", "../../elsewhere.git", "file://{}/elsewhere.git", "{}/link.git"])
async def test_a_bare_repository_outside_the_workspace_is_pushed_to_by_its_real_path(
    repository: Path, tools: Toolbox, workspace: Workspace, policy: Policy, tmp_path: Path, said: str
) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "elsewhere.git")
    (tmp_path / "link.git").symlink_to("elsewhere.git")
    git(repository, "remote", "set-url", "origin", said.format(tmp_path))
    (remote, *_) = survey(tools, workspace, policy).resources
    assert remote.id == str((tmp_path / "elsewhere.git").resolve())
    done = await push(tools)
    assert done.ok, done.content
    assert os.listdir(tmp_path / "elsewhere.git/refs/heads") == ["main"]


async def test_no_way_out_of_the_workspace_and_in_again_goes_round_what_is_looked_at_inside(
    repository: Path, folder: Path, tools: Toolbox, tmp_path: Path
) -> None:
    (folder / "remote.git/refs/heads").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (folder / "remote.git/refs/heads").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "back").symlink_to(folder)
    for way in (
        f"../../{folder.name}/remote.git",
        f"{tmp_path}/back/remote.git",
        f"{tmp_path}/../{tmp_path.name}/back/remote.git",
    ):
        git(repository, "remote", "set-url", "origin", way)
        assert "leads out of the workspace and in again" in (await push(tools)).content
    assert os.listdir(tmp_path / "elsewhere") == []


async def test_a_place_nobody_can_look_at_is_no_repository_and_says_so(
    repository: Path, tools: Toolbox, tmp_path: Path
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for way in (f"{tmp_path}/loop", f"{tmp_path}/{'x' * 300}", f"/{'y/' * 3000}z"):
        git(repository, "remote", "set-url", "origin", way)
        done = await push(tools)
        assert (done.ok, "no bare repository" in done.content) == (False, True)

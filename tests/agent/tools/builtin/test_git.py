"""Git on real repositories: what a hostile one asks to be run is never run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.git_repository import find_repository
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import EvidenceKind, ToolCall, ToolResult
from tests.agent.running import Bench, run_alone

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", folder, *words], check=True, capture_output=True, text=True, env=ENVIRONMENT
    ).stdout


@pytest.fixture
def repository(folder: Path) -> Path:
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.fixture
def tools(workspace: Workspace, policy: Policy) -> Toolbox:
    return Bench(workspace, builtin_tools(workspace, policy, memory=None))


async def call(tools: Toolbox, name: str, **arguments: Json) -> ToolResult:
    return await run_alone(tools, ToolCall.of(name, arguments))


async def test_a_change_is_seen_staged_committed_and_logged(repository: Path, tools: Toolbox) -> None:
    (repository / "a.txt").write_text("two\n")
    assert "+two" in (await call(tools, "git_diff")).content
    before = await call(tools, "git_status")
    added = await call(tools, "git_add", paths=["a.txt"])
    assert (before.evidence[0].kind, before.evidence[0].hash) == (EvidenceKind.GIT_STATE, added.changes[0].before)
    assert "+two" in (await call(tools, "git_diff", staged=True)).content
    done = await call(tools, "git_commit", message="second\n\n--not-an-option")
    assert done.ok
    assert done.changes[0].before == added.changes[0].after
    assert (await call(tools, "git_status")).evidence[0].hash == done.changes[0].after
    assert git(repository, "log", "-1", "--format=%an <%ae> %B").startswith("Foregate <foregate@localhost> second")
    assert (await call(tools, "git_log")).content.count("\n") == 2


async def test_the_repository_s_own_identity_is_used(repository: Path, tools: Toolbox) -> None:
    git(repository, "config", "user.name", "Ada <x> Lovelace")
    git(repository, "config", "user.email", "ada@example.org")
    (repository / "b").write_text("b")
    await call(tools, "git_add", paths=["b"])
    await call(tools, "git_commit", message="b")
    assert (
        git(repository, "log", "-1", "--format=%an|%ae|%cn").strip() == "Ada x Lovelace|ada@example.org|Ada x Lovelace"
    )


async def test_nothing_staged_is_nothing_committed(repository: Path, tools: Toolbox) -> None:
    result = await call(tools, "git_commit", message="nothing")
    assert (result.ok, result.error) == (False, "nothing_staged")


@pytest.mark.parametrize("name", [":(glob)**", ":/", "*", "-A", "--all", ":!x"])
async def test_a_path_is_never_a_pattern_or_an_option(repository: Path, tools: Toolbox, name: str) -> None:
    (repository / "new.txt").write_text("new")
    await call(tools, "git_add", paths=[name])
    assert git(repository, "diff", "--cached", "--name-only") == ""


SETTINGS = {
    "core.fsmonitor": "{script}",
    "core.hooksPath": "{hooks}",
    "core.pager": "{script}",
    "core.editor": "{script}",
    "core.sshCommand": "{script}",
    "core.askPass": "{script}",
    "diff.external": "{script}",
    "pager.log": "{script}",
    "pager.status": "{script}",
    "gpg.program": "{script}",
    "alias.status": "!{script}",
    "credential.helper": "!{script}",
    "interactive.diffFilter": "{script}",
    "trailer.x.command": "{script}",
}
DRIVERS = (
    "filter.x.clean",
    "filter.x.smudge",
    "filter.x.process",
    "diff.x.textconv",
    "diff.x.command",
    "merge.x.driver",
)


@pytest.mark.parametrize("setting", [*SETTINGS, *DRIVERS, "hook", "promisor"])
async def test_no_setting_of_a_repository_is_run(
    repository: Path, tools: Toolbox, tmp_path: Path, setting: str
) -> None:
    """Each tool runs against a repository that names a program for everything git might ask one for."""
    script, ran, hooks = tmp_path / "script", tmp_path / "ran", tmp_path / "hooks"
    script.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    script.chmod(0o755)
    hooks.mkdir()
    for hook in (
        "pre-commit",
        "commit-msg",
        "post-commit",
        "prepare-commit-msg",
        "post-index-change",
        "reference-transaction",
    ):
        (hooks / hook).write_text(script.read_text())
        (hooks / hook).chmod(0o755)
        if setting == "hook":
            (repository / ".git/hooks" / hook).write_text(script.read_text())
            (repository / ".git/hooks" / hook).chmod(0o755)
    git(repository, "config", "commit.gpgSign", "true")
    git(repository, "config", "log.showSignature", "true")
    if setting == "promisor":
        git(repository, "config", "remote.origin.url", f"ext::{script}")
        git(repository, "config", "remote.origin.promisor", "true")
        git(repository, "config", "protocol.ext.allow", "always")
        blob = git(repository, "rev-parse", "HEAD:a.txt").strip()
        (repository / f".git/objects/{blob[:2]}/{blob[2:]}").unlink()
    elif setting != "hook":
        value = SETTINGS.get(setting, "{script}").format(script=script, hooks=hooks)
        git(repository, "config", setting, value)
        (repository / ".gitattributes").write_text("*.txt diff=x merge=x\n")
        if setting.startswith("filter"):
            (repository / ".gitattributes").write_text("*.txt filter=x\n")
    (repository / "a.txt").write_text("two\n")
    (repository / "b.txt").write_text("b\n")
    for name, arguments in (
        ("git_status", {}),
        ("git_diff", {}),
        ("git_add", {"paths": ["a.txt", "b.txt"]}),
        ("git_diff", {"staged": True}),
        ("git_commit", {"message": "m"}),
        ("git_log", {}),
    ):
        result = await call(tools, name, **arguments)
        if setting in DRIVERS:
            assert f"the repository's setting `{setting}` names a program" in result.content
        elif setting != "promisor":
            assert result.ok, result.content
    assert not ran.exists()


async def test_a_filter_named_by_an_attribute_is_refused_and_not_skipped(repository: Path, tools: Toolbox) -> None:
    (repository / ".gitattributes").write_text("*.bin filter=lfs\n")
    (repository / "x.bin").write_text("x")
    assert "filter=lfs" in (await call(tools, "git_add", paths=["x.bin"])).content
    assert git(repository, "diff", "--cached", "--name-only") == ""


async def test_a_worktree_setting_does_not_lead_outside(repository: Path, tools: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/secret").write_text("outside")
    git(repository, "config", "core.worktree", str(tmp_path / "elsewhere"))
    assert "secret" not in (await call(tools, "git_status")).content


@pytest.mark.parametrize("name", ["objects", "refs", "index", "HEAD", "refs/heads", "objects/ab"])
async def test_a_link_in_git_s_own_folder_is_refused(
    repository: Path, tools: Toolbox, tmp_path: Path, name: str
) -> None:
    place = repository / ".git" / name
    if place.exists():
        place.rename(tmp_path / "moved")
    else:
        (tmp_path / "moved").mkdir()
    place.symlink_to(tmp_path / "moved")
    assert "is a link in git's own folder" in (await call(tools, "git_status")).content


def test_a_repository_whose_git_folder_lies_outside_is_refused(
    folder: Path, workspace: Workspace, policy: Policy, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q", "outer")
    (folder / ".git").write_text(f"gitdir: {tmp_path}/outer/.git\n")
    with pytest.raises(WorkspaceError, match="outside"):
        find_repository(workspace, policy, ".")
    (folder / ".git").unlink()
    (folder / ".git").symlink_to(tmp_path / "outer/.git")
    with pytest.raises(WorkspaceError, match="is a link"):
        find_repository(workspace, policy, ".")


def test_a_repository_above_the_workspace_is_not_found(folder: Path, workspace: Workspace, policy: Policy) -> None:
    git(folder.parent, "init", "-q")
    with pytest.raises(WorkspaceError, match="in no git repository"):
        find_repository(workspace, policy, ".")


def test_the_state_changes_with_what_is_staged_and_not_with_the_clock(
    repository: Path, workspace: Workspace, policy: Policy
) -> None:
    found = find_repository(workspace, policy, ".")
    first = found.compute_state()
    os.utime(repository / "a.txt", (1, 1))
    git(repository, "status")
    assert found.compute_state() == first
    (repository / "a.txt").write_text("two\n")
    assert found.compute_state() == first
    git(repository, "add", "a.txt")
    staged = found.compute_state()
    assert staged != first
    git(repository, "switch", "-q", "-c", "other")
    assert found.compute_state() not in (first, staged)


async def test_git_works_in_a_repository_without_commits_and_below_the_root(folder: Path, tools: Toolbox) -> None:
    (folder / "sub/deep").mkdir(parents=True)
    git(folder / "sub", "init", "-q")
    (folder / "sub/deep/x").write_text("x")
    assert (await call(tools, "git_log", path="sub")).content == "no commits yet"
    added = await call(tools, "git_add", path="sub/deep", paths=["sub/deep/x"])
    assert (added.ok, added.changes[0].resource.id) == (True, "sub")
    assert (await call(tools, "git_commit", path="sub", message="root")).ok
    assert "not in the repository" in (await call(tools, "git_add", path="sub", paths=["elsewhere"])).content


async def test_a_diff_leaves_out_secrets_nobody_named(repository: Path, tools: Toolbox) -> None:
    (repository / "sub").mkdir()
    for name in (".env", "sub/.env", "b.txt"):
        (repository / name).write_text("KEY=old\n")
    git(repository, "add", "-f", ".")
    git(repository, "commit", "-q", "-m", "second")
    for name in (".env", "sub/.env"):
        (repository / name).write_text("KEY=new\n")
    for staged in (False, True):
        if staged:
            git(repository, "add", "-f", ".")
        only = (await call(tools, "git_diff", staged=staged)).content
        assert only.startswith("(2 changed files that usually hold secrets are not shown")
        assert "KEY" not in (await call(tools, "git_diff", staged=staged, paths=["sub"])).content
        named = (await call(tools, "git_diff", staged=staged, paths=["sub/.env"])).content
        assert "+KEY=new" in named
    (repository / "b.txt").write_text("plain\n")
    git(repository, "reset", "-q")
    both = (await call(tools, "git_diff")).content
    assert "+plain" in both
    assert "KEY=new" not in both


async def test_a_revision_is_compared_and_logged(repository: Path, tools: Toolbox) -> None:
    (repository / "a.txt").write_text("two\n")
    git(repository, "commit", "-q", "-a", "-m", "second")
    git(repository, "branch", "side", "HEAD~1")
    for rev in ("HEAD~1", "side", "side..HEAD", "side...main", "HEAD^..", "@~1"):
        assert "+two" in (await call(tools, "git_diff", rev=rev)).content, rev
    assert (await call(tools, "git_log", rev="side")).content.count("\n") == 1
    assert "second" in (await call(tools, "git_log", rev="side..", paths=["a.txt"])).content


@pytest.mark.parametrize(
    "rev",
    ["--output=ran", "-p", "a.txt", "HEAD:a.txt", "{blob}", "HEAD -p", ":/first", "^HEAD", "gone", "..gone"],
)
async def test_only_a_commit_is_a_revision(repository: Path, tools: Toolbox, rev: str) -> None:
    blob = git(repository, "rev-parse", "HEAD:a.txt").strip()
    for tool in ("git_diff", "git_log"):
        done = await call(tools, tool, rev=rev.replace("{blob}", blob))
        assert "is no commit of this repository" in done.content
    assert not (repository / "ran").exists()


async def test_secrets_of_an_earlier_commit_stay_out_of_a_diff(repository: Path, tools: Toolbox) -> None:
    (repository / ".env").write_text("KEY=old\n")
    git(repository, "add", "-f", ".")
    git(repository, "commit", "-q", "-m", "second")
    assert "KEY" not in (await call(tools, "git_diff", rev="HEAD~1")).content
    assert "+KEY=old" in (await call(tools, "git_diff", rev="HEAD~1", paths=[".env"])).content


async def test_a_commit_is_signed_off_where_that_is_asked_for(repository: Path, tools: Toolbox) -> None:
    for signoff in (False, True):
        (repository / "b.txt").write_text(str(signoff))
        await call(tools, "git_add", paths=["b.txt"])
        assert (await call(tools, "git_commit", message="b", signoff=signoff)).ok
        signed = "Signed-off-by: Foregate <foregate@localhost>" in git(repository, "log", "-1", "--format=%B")
        assert signed == signoff

"""Repositories within a repository: shown as one entry, never entered, so that nothing their settings name is run."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from tests.agent.running import Bench
from tests.agent.tools.builtin.test_git import call, git

PROGRAMS = ("filter.x.clean", "filter.x.process", "core.fsmonitor", "core.hooksPath", "diff.external", "hook")


@pytest.fixture
def tools(workspace: Workspace, policy: Policy) -> Toolbox:
    return Bench(workspace, builtin_tools(workspace, policy, memory=None))


@pytest.fixture
def outer(folder: Path) -> Path:
    """A repository with a file and a nested repository `sub`, which it has as a gitlink."""
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    nested(folder / "sub")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def nested(place: Path) -> Path:
    git(place.parent, "init", "-q", "-b", "main", place.name)
    (place / "f").write_text("one\n")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "inner")
    return place


def arm(place: Path, program: str, script: Path) -> None:
    """Have a repository name a program for whoever runs git in it, and change a file so that git would ask for it."""
    ran = script.with_name("ran")
    script.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    script.chmod(0o755)
    hooks = Path(git(place, "rev-parse", "--absolute-git-dir").strip()) / "hooks"
    if program == "core.hooksPath":
        hooks = script.with_name("hooks")
    if program in ("hook", "core.hooksPath"):
        hooks.mkdir(exist_ok=True)
        for name in ("post-index-change", "pre-commit", "reference-transaction", "fsmonitor-watchman"):
            (hooks / name).write_text(script.read_text())
            (hooks / name).chmod(0o755)
        git(place, "config", "core.hooksPath", str(hooks))
    else:
        git(place, "config", program, str(script))
        (place / ".gitattributes").write_text("* filter=x\n")
    (place / "f").write_text("two\n")
    later = time.time() + 5  # a time that differs has git look at the content
    os.utime(place / "f", (later, later))


EVERY_TOOL = (
    ("git_status", {}),
    ("git_diff", {}),
    ("git_diff", {"paths": ["sub"]}),
    ("git_diff", {"staged": True}),
    ("git_diff", {"rev": "HEAD"}),
    ("git_log", {}),
    ("git_log", {"paths": ["sub"]}),
    ("git_add", {"paths": ["."]}),
    ("git_add", {"paths": ["sub"]}),
    ("git_add", {"paths": ["sub/f"]}),
    ("git_add", {"paths": ["a.txt"]}),
    ("git_commit", {"message": "second"}),
    ("git_status", {}),
)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("moved", [False, True], ids=["as recorded", "commit moved"])
async def test_no_tool_runs_what_a_nested_repository_names(
    outer: Path, tools: Toolbox, tmp_path: Path, program: str, moved: bool
) -> None:
    if moved:
        git(outer / "sub", "commit", "-q", "--allow-empty", "-m", "moved")
    arm(outer / "sub", program, tmp_path / "script")
    (outer / "a.txt").write_text("two\n")
    for name, arguments in EVERY_TOOL:
        await call(tools, name, **arguments)
        assert not (tmp_path / "ran").exists(), (name, arguments)
    assert git(outer, "log", "-1", "--format=%s").strip() == "second"


@pytest.mark.parametrize("program", ["filter.x.clean", "core.fsmonitor"])
async def test_git_itself_would_run_it(outer: Path, tmp_path: Path, program: str) -> None:
    """Without this the tests beside it would prove nothing."""
    arm(outer / "sub", program, tmp_path / "script")
    git(outer, "add", ".")
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("committed", [True, False], ids=["with commits", "without"])
async def test_an_embedded_repository_is_neither_staged_nor_entered(
    outer: Path, tools: Toolbox, tmp_path: Path, committed: bool
) -> None:
    inner = outer / "deep/inner"
    inner.parent.mkdir()
    if committed:
        nested(inner)
    else:
        git(inner.parent, "init", "-q", "inner")
    arm(inner, "filter.x.clean", tmp_path / "script")
    for path in ("deep", "deep/inner", "."):
        refused = await call(tools, "git_add", paths=[path])
        assert "is a repository of its own, which git_add does not stage" in refused.content
    assert "name that one as `path`" in (await call(tools, "git_add", paths=["deep/inner/f"])).content
    assert "?? deep/" in (await call(tools, "git_status")).content
    assert git(outer, "diff", "--cached", "--name-only") == ""
    assert not (tmp_path / "ran").exists()


async def test_files_beside_a_nested_repository_are_staged(outer: Path, tools: Toolbox) -> None:
    (outer / "a.txt").write_text("two\n")
    assert (await call(tools, "git_add", paths=["a.txt"])).ok
    assert git(outer, "diff", "--cached", "--name-only") == "a.txt\n"


async def test_a_submodule_nobody_fetched_hinders_nothing(outer: Path, tools: Toolbox, tmp_path: Path) -> None:
    (outer / "sub").rename(tmp_path / "away")
    (outer / "sub").mkdir()
    (outer / "a.txt").write_text("two\n")
    assert (await call(tools, "git_add", paths=["."])).ok
    assert "nested" not in (await call(tools, "git_status")).content


async def test_status_and_diff_name_what_they_did_not_look_into(outer: Path, tools: Toolbox) -> None:
    (outer / "sub/f").write_text("two\n")
    line = "(changes inside nested repositories are not shown: sub; name one as `path` to see them)\n"
    assert (await call(tools, "git_status")).content == f"## main\n{line}"
    assert (await call(tools, "git_diff")).content == line
    assert (await call(tools, "git_diff", staged=True)).content == "no changes"
    assert (await call(tools, "git_diff", paths=["a.txt"])).content == "no changes"
    assert "+two" in (await call(tools, "git_diff", path="sub")).content


async def test_a_nested_repository_on_another_commit_is_one_entry(outer: Path, tools: Toolbox) -> None:
    old = git(outer / "sub", "rev-parse", "HEAD").strip()
    git(outer / "sub", "commit", "-q", "--allow-empty", "-m", "moved")
    assert " M sub\n" in (await call(tools, "git_status")).content
    assert f"-Subproject commit {old}" in (await call(tools, "git_diff")).content


async def test_a_submodule_that_a_person_staged_is_seen_and_committed(outer: Path, tools: Toolbox) -> None:
    git(outer / "sub", "commit", "-q", "--allow-empty", "-m", "moved")
    before = await call(tools, "git_status")
    git(outer, "add", "sub")
    after = await call(tools, "git_status")
    assert "M  sub\n" in after.content
    assert before.evidence[0].hash != after.evidence[0].hash
    assert (await call(tools, "git_commit", message="take the newer one")).ok
    assert git(outer, "show", "--name-only", "--format=") == "sub\n"


@pytest.mark.parametrize("way", ["file", "link", "commondir"])
async def test_a_nested_repository_that_lies_outside_is_refused_by_every_tool(
    outer: Path, tools: Toolbox, tmp_path: Path, way: str
) -> None:
    place = outer / "sub/.git"
    place.rename(tmp_path / "away")
    if way == "file":
        place.write_text(f"gitdir: {tmp_path}/away\n")
    elif way == "link":
        place.symlink_to(tmp_path / "away")
    else:
        place.mkdir()
        (place / "commondir").write_text(f"{tmp_path}/away\n")
    for name, arguments in EVERY_TOOL:
        refused = await call(tools, name, **arguments)
        assert not refused.ok
        assert "sub/.git" in refused.content


async def test_a_submodule_with_its_folder_in_the_outer_one_is_at_work(outer: Path, tools: Toolbox) -> None:
    """`git submodule add` puts it there, by a path relative to the submodule."""
    (outer / ".git/modules").mkdir()
    (outer / "sub/.git").rename(outer / ".git/modules/sub")
    (outer / "sub/.git").write_text("gitdir: ../.git/modules/sub\n")
    git(outer / "sub", "config", "core.worktree", "../../../sub")
    assert (await call(tools, "git_status")).ok
    assert (await call(tools, "git_status", path="sub")).content.startswith("## main")

"""Where git reads: every tool refuses a repository whose own folder leads git outside the workspace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from foregate.agent.survey.secret_scan import SecretScan
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.tool_call import Command
from tests.agent.running import Bench
from tests.agent.tools.builtin.test_git import call, git

SECRET = "what stands in the other repository"


@pytest.fixture
def tools(workspace: Workspace, policy: Policy) -> Toolbox:
    return Bench(workspace, builtin_tools(workspace, policy, memory=None))


@pytest.fixture
def repository(folder: Path) -> Path:
    work = made(folder / "work", "one")
    git(folder, "init", "-q", "--bare", "remote.git")
    git(work, "remote", "add", "origin", "../remote.git")
    return work


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A repository outside the workspace."""
    return made(tmp_path / "other", SECRET)


def made(place: Path, text: str) -> Path:
    git(place.parent, "init", "-q", "-b", "main", place.name)
    (place / "a.txt").write_text(f"{text}\n")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", text)
    return place


def borrow(place: Path, *lines: str) -> None:
    info = place / "info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_text("".join(f"{line}\n" for line in lines))


EVERY_TOOL = (
    ("git_status", {}),
    ("git_diff", {}),
    ("git_log", {}),
    ("git_add", {"paths": ["work/a.txt"]}),
    ("git_commit", {"message": "m"}),
    ("git_push", {"remote": "origin", "branch": "main"}),
)


async def refused_by_all(tools: Toolbox, named: str) -> None:
    for name, arguments in EVERY_TOOL:
        done = await call(tools, name, path="work", **arguments)
        assert not done.ok
        assert named in done.content, done.content
        assert done.content.count("\n") == 0


async def test_objects_of_a_repository_outside_are_not_shown(repository: Path, tools: Toolbox, other: Path) -> None:
    borrow(repository / ".git/objects", str(other / ".git/objects"))
    commit = git(other, "rev-parse", "HEAD").strip()
    shown = await call(tools, "git_diff", path="work", rev=f"HEAD..{commit}")
    assert SECRET not in shown.content
    await refused_by_all(tools, "`work/.git/objects/info/alternates` has git read objects outside the workspace")


@pytest.mark.parametrize("form", ["relative", "by a link", "quoted", "after a comment", "second"])
async def test_no_way_of_writing_an_alternate_leads_outside(
    repository: Path, tools: Toolbox, other: Path, folder: Path, form: str
) -> None:
    store = other / ".git/objects"
    (folder / "door").symlink_to(other)
    (folder / "store").mkdir()
    lines = {
        "relative": [os.path.relpath(store, repository / ".git/objects")],
        "by a link": [str(folder / "door/.git/objects")],
        "quoted": [f'"{store}"'],
        "after a comment": ["# where the rest is", str(store)],
        "second": ["../../../store", str(store)],
    }
    borrow(repository / ".git/objects", *lines[form])
    await refused_by_all(tools, "outside the workspace")


async def test_a_chain_of_alternates_is_followed_to_its_end(
    repository: Path, tools: Toolbox, folder: Path, other: Path
) -> None:
    near, next_ = made(folder / "near", "near"), made(folder / "next", "next")
    borrow(repository / ".git/objects", "../../../near/.git/objects")
    borrow(near / ".git/objects", "../../../next/.git/objects")
    assert (await call(tools, "git_log", path="work")).ok
    borrow(next_ / ".git/objects", str(other / ".git/objects"))
    await refused_by_all(tools, "`next/.git/objects/info/alternates`")


async def test_a_circle_of_alternates_ends(repository: Path, tools: Toolbox, folder: Path) -> None:
    near = made(folder / "near", "near")
    borrow(repository / ".git/objects", str(near / ".git/objects"))
    borrow(near / ".git/objects", str(repository / ".git/objects"))
    assert (await call(tools, "git_log", path="work")).ok


async def test_a_clone_that_shares_objects_within_the_workspace_works(folder: Path, tools: Toolbox) -> None:
    made(folder / "source", "one")
    git(folder, "clone", "-q", "--shared", "source", "work")
    git(folder, "init", "-q", "--bare", "remote.git")
    git(folder / "work", "remote", "set-url", "origin", "../remote.git")
    (folder / "work/a.txt").write_text("two\n")
    assert (folder / "work/.git/objects/info/alternates").exists()
    for name, arguments in EVERY_TOOL:
        done = await call(tools, name, path="work", **arguments)
        assert done.ok, done.content


@pytest.mark.parametrize("kind", ["link", "folder", "large"])
async def test_a_list_of_alternates_that_cannot_be_checked_is_refused(
    repository: Path, tools: Toolbox, tmp_path: Path, kind: str
) -> None:
    listed = repository / ".git/objects/info/alternates"
    if kind == "link":
        (tmp_path / "list").write_text("")
        listed.symlink_to(tmp_path / "list")
    elif kind == "folder":
        listed.mkdir()
    else:
        listed.write_text("#" * 100_000)
    await refused_by_all(tools, "`work/.git/objects/info/alternates` is ")


async def test_a_link_among_the_objects_is_refused(repository: Path, tools: Toolbox, other: Path) -> None:
    blob = git(other, "rev-parse", "HEAD:a.txt").strip()
    place = repository / ".git/objects" / blob[:2]
    place.mkdir(exist_ok=True)
    (place / blob[2:]).symlink_to(other / ".git/objects" / blob[:2] / blob[2:])
    await refused_by_all(tools, "is a link in git's own folder")


async def test_a_linked_pack_is_refused_also_in_a_store_that_is_borrowed_from(
    repository: Path, tools: Toolbox, folder: Path, other: Path
) -> None:
    git(other, "repack", "-q", "-a", "-d")
    near = made(folder / "near", "near")
    pack = next((other / ".git/objects/pack").glob("*.pack"))
    (near / ".git/objects/pack" / pack.name).symlink_to(pack)
    borrow(repository / ".git/objects", str(near / ".git/objects"))
    await refused_by_all(tools, f"`near/.git/objects/pack/{pack.name}"[:40])


async def test_the_folder_a_worktree_shares_is_checked_as_its_own(folder: Path, tools: Toolbox, other: Path) -> None:
    main = made(folder / "main", "one")
    git(folder, "init", "-q", "--bare", "remote.git")
    git(main, "remote", "add", "origin", "../remote.git")
    git(main, "worktree", "add", "-q", "-b", "side", "../work")
    assert (await call(tools, "git_log", path="work")).ok
    borrow(main / ".git/objects", str(other / ".git/objects"))
    await refused_by_all(tools, "`main/.git/objects/info/alternates`")
    borrow(main / ".git/objects")
    heads = main / ".git/refs/heads"
    heads.rename(heads.with_name("kept"))
    heads.symlink_to(other / ".git/refs/heads")
    await refused_by_all(tools, "is a link in git's own folder")


async def test_a_worktree_of_a_repository_outside_is_refused(folder: Path, tools: Toolbox, other: Path) -> None:
    git(other, "worktree", "add", "-q", "-b", "side", str(folder / "work"))
    await refused_by_all(tools, "`work/.git` leads git outside the workspace")


@pytest.mark.parametrize(
    ("key", "refused"),
    [
        ("include.path", True),
        ("core.excludesFile", True),
        ("core.attributesFile", True),
        ("diff.orderFile", True),
        ("include.path ~", False),
    ],
)
async def test_a_setting_that_has_git_read_a_file_outside_is_refused(
    repository: Path, tools: Toolbox, tmp_path: Path, key: str, refused: bool
) -> None:
    (tmp_path / "settings").write_text("[user]\n\tname = who stands there\n")
    name, _, home = key.partition(" ")
    git(repository, "config", name, f"{home}/x" if home else str(tmp_path / "settings"))
    if refused:
        await refused_by_all(tools, "has git read outside the workspace; remove it to go on")
    else:
        assert (await call(tools, "git_status", path="work")).ok


async def test_settings_of_the_project_may_be_included(repository: Path, tools: Toolbox) -> None:
    (repository / ".gitsettings").write_text("[user]\n\tname = Ada\n")
    git(repository, "config", "include.path", "../.gitsettings")
    (repository / "a.txt").write_text("two\n")
    await call(tools, "git_add", path="work", paths=["work/a.txt"])
    assert (await call(tools, "git_commit", path="work", message="m")).ok
    assert git(repository, "log", "-1", "--format=%an").strip() == "Ada"


def test_a_command_that_commits_is_told_that_nobody_could_look(
    repository: Path, workspace: Workspace, policy: Policy, other: Path
) -> None:
    borrow(repository / ".git/objects", str(other / ".git/objects"))
    leaks = SecretScan(workspace, policy).scan_command(Command(argv=("git", "commit", "-m", "m")), "work")
    assert leaks
    assert "cannot be looked at" in leaks[0]

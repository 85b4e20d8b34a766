"""The locks of a git command that is dead are removed, and those of anybody else stay."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from foregate.agent.workspace.git_folder import describe_removed, find_git_folder, remove_dead_locks
from foregate.agent.workspace.local import LocalWorkspace

HOUR = 3_600_000_000_000
LOCKS = ("HEAD.lock", "config.lock", "index.lock", "packed-refs.lock", "refs/heads/a/b.lock", "refs/heads/main.lock")


@pytest.fixture
def space(folder: Path) -> Iterator[LocalWorkspace]:
    """A workspace that is a repository with one commit."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "base")
    space = LocalWorkspace(folder)
    yield space
    space.close()


def git(folder: Path, *words: str) -> None:
    """Run git in a folder."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def make(folder: Path, *names: str) -> list[str]:
    """Make locks in a git folder; return their paths in the workspace."""
    for name in names:
        (folder / ".git" / name).parent.mkdir(exist_ok=True)
        (folder / ".git" / name).touch()
    return [f".git/{name}" for name in names]


def test_every_lock_that_git_makes_is_removed_where_it_was_made_since(space: LocalWorkspace) -> None:
    since = time.time_ns()
    made = make(space.root, *LOCKS)
    (space.root / "yarn.lock").touch()
    assert remove_dead_locks(space, ".git", since) == sorted(made)
    assert remove_dead_locks(space, ".git", since) == []
    assert sorted(path.name for path in space.root.rglob("*.lock")) == ["yarn.lock"]


def test_a_lock_from_before_the_call_stays(space: LocalWorkspace) -> None:
    make(space.root, *LOCKS)
    now = time.time_ns()
    assert remove_dead_locks(space, ".git", now + HOUR) == []
    lock = space.root / ".git/index.lock"
    os.utime(lock, ns=(now, now - HOUR))  # written before, whatever was done to it since
    assert ".git/index.lock" not in remove_dead_locks(space, ".git", now - HOUR // 2)
    assert lock.exists()


def test_what_is_no_plain_file_of_its_own_stays(space: LocalWorkspace) -> None:
    inside = space.root / ".git"
    (space.root / "kept").write_text("mine")
    (inside / "index.lock").symlink_to("../kept")
    (inside / "HEAD.lock").hardlink_to(space.root / "kept")
    os.mkfifo(inside / "config.lock")
    (inside / "shallow.lock").mkdir()
    assert remove_dead_locks(space, ".git", 0) == []
    assert (space.root / "kept").read_text() == "mine"


def test_a_lock_that_a_living_process_has_open_stays_until_that_has_ended(space: LocalWorkspace) -> None:
    lock = space.root / ".git/index.lock"
    script = f"file = open({str(lock)!r}, 'x'); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert remove_dead_locks(space, ".git", 0) == []
        assert lock.exists()
        holder.communicate(b"\n")
    assert remove_dead_locks(space, ".git", 0) == [".git/index.lock"]


@pytest.mark.parametrize("where", ["in it", "by its words"])
def test_a_lock_that_a_living_git_closed_while_it_waits_for_an_editor_stays(space: LocalWorkspace, where: str) -> None:
    root = space.root
    (root / "a.txt").write_text("one\n")
    git(root, "add", "a.txt")
    (root / "a.txt").write_text("two\n")
    asking, answer = root.parent / "asking", root.parent / "answer"
    os.mkfifo(asking)
    os.mkfifo(answer)
    editor = root.parent / "editor.sh"
    editor.write_text(f"#!/bin/sh\necho > {asking}\nread line < {answer}\necho the message > $1\n")
    editor.chmod(0o700)
    words = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    words += ["-C", str(root)] if where == "in it" else [f"--git-dir={root}/.git", f"--work-tree={root}"]
    environment = {**os.environ, "GIT_EDITOR": str(editor)}
    with subprocess.Popen([*words, "commit", "-a"], cwd="/", env=environment, stdout=subprocess.DEVNULL) as foreign:
        asking.read_text()
        assert (root / ".git/index.lock").exists()
        removed = remove_dead_locks(space, ".git", 0)
        answer.write_text("go on\n")
    assert removed == []
    assert foreign.returncode == 0
    assert not (root / ".git/index.lock").exists()


def test_a_linked_worktree_has_locks_of_its_own_and_those_it_shares(space: LocalWorkspace) -> None:
    git(space.root, "worktree", "add", "-q", "-b", "other", "linked")
    folder = find_git_folder(space, "linked")
    assert folder == ".git/worktrees/linked"
    made = make(space.root, "worktrees/linked/index.lock", "refs/heads/other.lock")
    mine = make(space.root, "worktrees/linked/HEAD.lock")
    assert remove_dead_locks(space, folder, 0) == sorted([*made, *mine])


def test_what_is_said_names_each_lock() -> None:
    assert describe_removed([]) == ""
    assert describe_removed(["a.lock", "b.lock"]) == "the locks it left, `a.lock`, `b.lock`, were removed"

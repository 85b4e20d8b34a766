"""What a sandbox takes away of a repository and git cannot bring back is named, and nothing else; git for real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from foregate.agent.survey.git_losses import GitLosses
from foregate.agent.workspace.git_repository import find_repository
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.source.load import default_policy
from tests.agent.survey.changed import GIT, run, run_in_copy

POLICY = default_policy()
Find = Callable[..., set[str]]
NAMES = {"main", "side", "done", "stash"}
MADE = f"""
git init -qb main && echo 1 > a && git add . && {GIT} commit -qm one && git branch done
{GIT} switch -qc x && echo 2 > b && git add . && {GIT} commit -qm two && git switch -q main
git branch side x && git branch -D x && echo 3 >> a && {GIT} stash -q && rm .git/logs/HEAD
"""


@pytest.fixture
def find_losses(folder: Path, tmp_path: Path, workspace: Workspace) -> Find:
    """Runs a line in a copy of the workspace, as a sandbox does, and returns what is lost."""

    def found(line: str, before: str = "true") -> set[str]:
        run(before, folder)
        made = run_in_copy(line, folder, tmp_path / "kept/upper")
        return {*GitLosses(find_repository(workspace, POLICY, "."), made).list_lost()}

    run(MADE, folder)
    return found


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("git branch -D side", {"side"}),
        ("git pack-refs --all && git update-ref -d refs/heads/side", {"side"}),
        ("git branch -m side other", set()),
        ("git branch -d done", set()),
        ("git tag v1 side && git branch -D side", set()),
        ("git switch -q side && git switch -q main && git branch -D side", set()),
        ("git pack-refs --all", set()),
        (f"{GIT} merge -q side && {GIT} commit --amend -qm x", set()),
        ("git stash drop", {"stash"}),
        ("git stash clear", {"stash"}),
        ("git stash pop", set()),
        ("git stash pop && git checkout a", {"stash"}),
        (f"{GIT} stash apply && {GIT} stash", set()),
        ("git gc -q", set()),
        ("git repack -adq", set()),
        ("git stash drop && git gc -q --prune=now", {"stash"}),
        ("rm .git/HEAD", {".git/HEAD"}),
        ("git pack-refs --all && echo nonsense > .git/packed-refs && echo nonsense > .git/logs/refs/stash", NAMES),
    ],
)
def test_what_git_cannot_bring_back_is_named(find_losses: Find, line: str, lost: set[str]) -> None:
    assert find_losses(line) == lost


TAGGED = f"""
git switch -qc t main && {GIT} commit -q --allow-empty -m t && git tag v1 && git switch -q main
git branch -D t && rm .git/logs/HEAD
"""
KEPT = "git stash pop -q && echo 4 > new && git stash -qu"


@pytest.mark.parametrize(
    ("before", "line", "lost"),
    [
        ("git config core.logAllRefUpdates always", "git branch -f side main", set()),
        ("true", "git branch -f side main && rm -r .git/logs/refs", {"side"}),
        ("true", "git symbolic-ref refs/heads/side refs/heads/none && rm -r .git/logs/refs", {"side"}),
        ("true", "git update-ref refs/heads/done side && git branch -f side main && rm -r .git/logs/refs", set()),
        ("true", "git update-ref refs/heads/side main && rm -r .git/logs && git branch -D done", {"side"}),
        ("git pack-refs --all", "git branch -D side", {"side"}),
        ("true", "echo nonsense > .git/refs/heads/side", {"side"}),
        ("true", "echo $(git rev-parse side)0 > .git/refs/heads/side", {"side"}),
        ("true", "ln -sf /none .git/refs/heads/side", {"side"}),
        (f"echo 5 >> a && {GIT} stash -q", "git stash drop 'stash@{1}'", {"stash"}),
        (
            f"git stash store -m x $({GIT} commit-tree -p HEAD -p side -m x 'HEAD^{{tree}}')",
            "git stash drop",
            {"stash"},
        ),
        (TAGGED, "git tag -f v1 main", {"v1"}),
        (TAGGED, "git branch kept v1 && git tag -f v1 main", set()),
        ("rm -r .git/logs && git config core.logAllRefUpdates false", f"{GIT} commit -q --allow-empty -m x", set()),
        (KEPT, "git stash pop", set()),
        (KEPT, "git stash show -p | git apply && git stash drop", {"stash"}),
        (KEPT, "git checkout 'stash@{0}^3' -- new && git stash show -p | git apply && git stash drop", set()),
    ],
)
def test_what_a_name_led_to_before_it_was_moved_counts_as_well_and_so_do_files_git_did_not_know(
    find_losses: Find, before: str, line: str, lost: set[str]
) -> None:
    assert find_losses(line, before) == lost

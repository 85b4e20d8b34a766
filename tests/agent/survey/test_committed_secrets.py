"""A program that commits is asked about for the secrets its words do not tell of; git for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate.agent.survey.committed_secrets import find_committed_secrets
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_call import Command, Survey
from tests.agent.survey.changed import GIT, run, run_in_copy

KEY = "KEY=AKIA" + "A" * 16
MADE = f"git init -qb main && echo 1 > a && git add . && {GIT} commit -qm one && echo {KEY} > key.py"
ALL = f"git add -A && {GIT} commit -qm two"
FOUND = ("what is untracked in `key.py` matches sensitive.patterns[1]",)


def find(
    workspace: Workspace, folder: Path, tmp_path: Path, line: str, command: str = "sh release.sh", asked: str = ""
) -> tuple[str, ...]:
    """Return what is found once a line has run, which the call gave as `command`."""
    found = run_in_copy(line, folder, tmp_path / "kept/upper")
    judged = Survey("c", command=Command(shell=command), secrets=tuple(filter(None, [asked])))
    return find_committed_secrets(found, judged, workspace, default_policy())


@pytest.mark.parametrize(
    ("line", "secrets"),
    [
        (ALL, FOUND),
        (f"{ALL} && git gc -q", FOUND),
        (f"git switch -q --detach && {ALL}", FOUND),
        ("git add -A", ()),
        ("git switch -qc side", ()),
        ("echo 2 > a", ()),
        (
            f"rm key.py && echo {KEY} > b.py && {ALL}",
            (*FOUND, "what is written in `b.py` matches sensitive.patterns[1]"),
        ),
        (f"echo 2 > .env && {ALL}", (*FOUND, "`.env` is written")),
    ],
)
def test_all_that_a_program_may_have_committed_is_looked_through(
    workspace: Workspace, folder: Path, tmp_path: Path, line: str, secrets: tuple[str, ...]
) -> None:
    run(MADE, folder)
    assert find(workspace, folder, tmp_path, line) == secrets


@pytest.mark.parametrize(
    ("command", "secrets"),
    [
        ("git add a && git commit -m x", ()),
        ("cd lib && git commit -am x", ()),
        ("git release", FOUND),
        ("git -c core.hooksPath=x commit", FOUND),
        ("GIT_EDITOR=release.sh git commit", FOUND),
        ("make release; git commit -m x", FOUND),
        ("git commit -m 'x", ()),
    ],
)
def test_git_whose_words_tell_what_it_commits_was_looked_through_before(
    workspace: Workspace, folder: Path, tmp_path: Path, command: str, secrets: tuple[str, ...]
) -> None:
    run(MADE, folder)
    assert find(workspace, folder, tmp_path, ALL, command) == secrets


def test_what_was_asked_about_before_is_not_again(workspace: Workspace, folder: Path, tmp_path: Path) -> None:
    run(MADE, folder)
    assert find(workspace, folder, tmp_path, ALL, asked=FOUND[0]) == ()


def test_a_repository_that_cannot_be_looked_at_is_said(workspace: Workspace, folder: Path, tmp_path: Path) -> None:
    run(f"{MADE} && git config filter.x.clean cat", folder)
    assert "cannot be looked at" in find(workspace, folder, tmp_path, ALL)[0]


def test_a_file_that_cannot_be_read_is_said_and_counts(workspace: Workspace, folder: Path, tmp_path: Path) -> None:
    run(f"{MADE} && rm key.py", folder)
    found = run_in_copy(f"echo 2 > b.py && {ALL}", folder, tmp_path / "kept/upper")
    (tmp_path / "kept/upper/b.py").unlink()
    leaks = find_committed_secrets(found, Survey("c", command=Command(shell="sh x")), workspace, default_policy())
    assert leaks == ("`b.py` is written and cannot be looked at: No such file or directory",)


def test_of_a_repository_the_program_began_its_files_are_looked_through(
    workspace: Workspace, folder: Path, tmp_path: Path
) -> None:
    line = f"git init -qb main new && echo {KEY} > new/b.py && cd new && {ALL}"
    assert find(workspace, folder, tmp_path, line) == ("what is written in `new/b.py` matches sensitive.patterns[1]",)

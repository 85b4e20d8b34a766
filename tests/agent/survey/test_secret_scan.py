"""What a commit or a push would carry away is looked through, in the repository it is of, before anybody allows it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from foregate.agent.survey.secret_scan import list_added_lines
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.strict_json import Json
from tests.agent.survey.test_surveyor import Look, looking, stage


@pytest.fixture
def look(workspace: Workspace) -> Look:
    return looking(workspace)


@pytest.fixture
def repository(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def commit(folder: Path) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t")
    subprocess.run(["git", *who, "commit", "-qm", "x"], cwd=folder, check=True)


@pytest.mark.parametrize(
    ("tool", "command", "says"),
    [
        ("run_command", ["git", "-C", "inner", "commit", "-am", "x"], "what is changed in `inner/a.py` matches"),
        (
            "run_command",
            ["git", "-c", "a.b=c", "-C", ".", "-C", "inner", "commit", "-am", "x"],
            "in `inner/a.py` matches",
        ),
        ("run_command", ["git", "-C", "..", "commit", "-am", "x"], "cannot be looked at"),
        ("run_command", ["git", "--git-dir=inner/.git", "commit", "-am", "x"], "cannot be looked at"),
        ("run_command", ["git", "--git-dir", "inner/.git", "--work-tree", "inner", "commit"], "cannot be looked at"),
        ("run_command", ["git", "--attr-source", "HEAD", "-C", "inner", "commit", "-am", "x"], "cannot be looked at"),
        ("run_command", ["git", "-c", "core.worktree=inner", "commit", "-am", "x"], "cannot be looked at"),
        (
            "run_command",
            ["git", "--no-pager", "-P", "-C", "inner", "commit", "-am", "x"],
            "what is changed in `inner/a.py` matches",
        ),
        ("run_command", ["env", "-C", "inner", "git", "commit", "-am", "x"], "cannot be looked at"),
        ("run_shell", "cd inner && git commit -am x", "cannot be looked at"),
        ("run_shell", "git -C inner commit -am x", "cannot be looked at"),
        ("run_shell", "GIT_DIR=inner/.git git commit -am x", "cannot be looked at"),
        (
            "run_command",
            ["git", "-C", "inner", "push", "origin", "main"],
            "what is to be pushed in `inner/a.py` matches",
        ),
        ("run_command", ["git", "-C", "clean", "commit", "-C", "HEAD"], ""),
        ("run_command", ["git", "-C", "clean", "push"], ""),
    ],
)
def test_a_commit_and_a_push_are_looked_through_in_the_repository_they_are_of(
    folder: Path, look: Look, tool: str, command: Json, says: str
) -> None:
    for name, content in (("inner", f"KEY = 'AKIA{'A' * 16}'\n"), ("clean", "KEY = ''\n")):
        (folder / name).mkdir()
        subprocess.run(["git", "init", "-q"], cwd=folder / name, check=True)
        for text in (content, content + content):
            (folder / name / "a.py").write_text(text)
            stage(folder / name, "a.py")
            if text == content:
                commit(folder / name)
        (folder / name / "a.py").write_text(content * 3)
    found = look(tool, **{"argv" if tool == "run_command" else "command": command}).secrets
    assert any(says in word for word in found) if says else found == ()


def test_what_no_remote_has_is_looked_through_before_a_branch_is_pushed(repository: Path, look: Look) -> None:
    (repository / "clean").write_text("nothing")
    stage(repository, "clean")
    commit(repository)
    branch = subprocess.run(["git", "branch", "--show-current"], cwd=repository, capture_output=True, text=True)
    subprocess.run(["git", "init", "-q", "--bare", "remote.git"], cwd=repository, check=True)
    subprocess.run(["git", "remote", "add", "origin", "remote.git"], cwd=repository, check=True)
    wanted = {"remote": "origin", "branch": branch.stdout.strip()}
    assert look("git_push", **wanted).secrets == ()
    for name in ("notes", ".env"):
        (repository / name).write_text(f"AKIA{'A' * 16}\n")
        stage(repository, name)
        commit(repository)
        (repository / name).write_text("taken out again, and still in the history\n")
        stage(repository, name)
        commit(repository)
    found = look("git_push", **wanted).secrets
    assert any("what is to be pushed in `.env` matches" in word for word in found)
    assert "`.env` is to be pushed" in found
    subprocess.run(["git", "push", "-q", "origin", wanted["branch"]], cwd=repository, check=True)
    assert look("git_push", **wanted).secrets == ()


def test_a_line_that_looks_like_the_head_of_a_diff_names_no_file() -> None:
    heads = b"diff --git a/x b/x\n--- /dev/null\n+++ b/x\n", b"diff --git a/y b/y\n+++ b/y\n"
    diff = b"@@ -0,0 +1,2 @@\n+++ b/other\n+key\n".join(heads)
    assert list(list_added_lines(diff)) == [("", b""), ("x", b"++ b/other\nkey"), ("y", b"")]

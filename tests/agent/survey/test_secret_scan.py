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
        ("run_shell", "cd inner && git commit -am x", "what is changed in `inner/a.py` matches"),
        ("run_shell", "git -C inner commit -am x", "what is changed in `inner/a.py` matches"),
        ("run_shell", "cd clean && git add a.py; cd ../inner && git commit -am x", "in `inner/a.py` matches"),
        ("run_shell", "cd clean && git add a.py && git commit -m 'cd inner'", ""),
        ("run_shell", "cd nowhere; git commit -am x", "cannot be looked at"),
        ("run_shell", "cd $THERE && git commit -am x", "cannot be looked at"),
        ("run_shell", "builtin cd inner && git commit -am x", "cannot be looked at"),
        ("run_shell", "f() { cd inner; }; cd clean; f; git commit -am x", "cannot be looked at"),
        ("run_shell", "export CDPATH=inner; cd clean && git commit -am x", "cannot be looked at"),
        ("run_shell", "cd clean && sh -c 'cd ../inner && git commit -am x'", "cannot be looked at"),
        ("run_shell", "cd clean && git add a.py; sh -c 'git commit -am x'", "cannot be looked at"),
        ("run_shell", "cd inner && sh -c 'git commit -am x'", "cannot be looked at"),
        ("run_shell", "cd clean && make -C ../inner commit; git commit -am x", "cannot be looked at"),
        ("run_shell", "cd clean && git --git-dir=../inner/.git commit -am x", "cannot be looked at"),
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


def test_secrets_of_a_commit_are_named_by_pattern_and_never_shown(repository: Path, look: Look) -> None:
    key = "AKIA" + "A" * 16
    (repository / "clean").write_text("nothing")
    stage(repository, "clean")
    assert look("git_commit", message="m").secrets == ()
    (repository / ".gitattributes").write_text("* -diff\n")
    (repository / "notes").write_bytes(b"\0" + key.encode())
    (repository / ".env").write_text("x")
    stage(repository, "notes", ".env")
    found = look("git_commit", message="m")
    assert [word for word in found.secrets if "sensitive.patterns[1]" in word]
    assert "`.env` is staged" in found.secrets
    assert key not in str(found)
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t", "commit", "-qm", "x"], cwd=repository, check=True)
    (repository / "notes").write_text("removed")
    stage(repository, "notes")
    assert look("git_commit", message="m").secrets == ()


def test_an_example_of_a_secret_file_holds_only_what_looks_secret_in_it(repository: Path, look: Look) -> None:
    (repository / ".env.example").write_text("API_KEY=\n")
    stage(repository, ".env.example")
    assert look("git_commit", message="m").secrets == ()
    (repository / ".env.example").write_text(f"API_KEY=AKIA{'A' * 16}\n")
    stage(repository, ".env.example")
    assert look("git_commit", message="m").secrets == (
        "what is staged in `.env.example` matches sensitive.patterns[1]",
    )


def test_a_commit_s_message_is_looked_through_as_well(repository: Path, look: Look) -> None:
    (repository / "clean").write_text("nothing")
    stage(repository, "clean")
    assert look("git_commit", message=f"Use AKIA{'A' * 16}").secrets == ("the call matches sensitive.patterns[1]",)


ADD = "git add -A && git commit -m x"


@pytest.mark.parametrize(
    ("tool", "command", "secrets"),
    [
        (
            "run_shell",
            ADD,
            (
                "what is changed in `tracked.py` matches",
                "what is untracked in `untracked.py` matches",
                "`.env` is untracked",
            ),
        ),
        (
            "run_shell",
            "git add '",
            (
                "what is changed in `tracked.py` matches",
                "what is untracked in `untracked.py` matches",
                "`.env` is untracked",
            ),
        ),
        (
            "run_command",
            ["env", "sh", "-c", ADD],
            ("what is changed in `tracked.py` matches", "what is untracked in", "`.env` is"),
        ),
        ("run_command", ["git", "-C", ".", "commit", "-am", "x"], ("what is changed in `tracked.py` matches",)),
        ("run_shell", "git commit -am x", ("what is changed in `tracked.py` matches",)),
        ("run_shell", "git status", ()),
        ("run_command", ["make"], ()),
    ],
)
def test_what_a_command_could_commit_is_looked_through_as_a_commit_is(
    repository: Path, look: Look, tool: str, command: Json, secrets: tuple[str, ...]
) -> None:
    for name in ("tracked.py", "untracked.py", ".env"):
        (repository / name).write_text("KEY = ''\n")
    stage(repository, "tracked.py")
    for name in ("tracked.py", "untracked.py"):
        (repository / name).write_text(f"KEY = 'AKIA{'A' * 16}'\n")
    found = look(tool, **{"argv" if tool == "run_command" else "command": command}).secrets
    assert [word.startswith(start) for word, start in zip(found, secrets, strict=True)] == [True] * len(secrets)


def test_what_a_command_would_commit_and_cannot_be_looked_at_counts_as_secret(folder: Path, look: Look) -> None:
    assert "cannot be looked at" in look("run_shell", command="git commit -m x").secrets[0]
    ran = folder / "ran"
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "config", "filter.x.clean", f"touch {ran}"], cwd=folder, check=True)
    assert "names a program git would run" in look("run_shell", command="git commit -m x").secrets[0]
    assert not ran.exists()


@pytest.mark.parametrize("where", ["url", "body", "header"])
def test_secrets_of_a_request_are_found_wherever_they_are(look: Look, where: str) -> None:
    key = "ghp_" + "a" * 36
    arguments = {"url": f"https://example.org/{key if where == 'url' else ''}", "method": "POST"}
    arguments |= {"body": f"x\n{key}"} if where == "body" else {}
    headers = {"headers": {"Authorization": key}} if where == "header" else {}
    found = look("http_request", **arguments, **headers)
    assert found.secrets == ("the call matches sensitive.patterns[2]",)


@pytest.mark.parametrize("spelt", ["hunter2+hunter2", "hunter2%2Bhunter2", "aHVudGVyMitodW50ZXIy"])
def test_the_value_of_a_secret_file_is_found_in_what_is_sent_or_committed(
    repository: Path, look: Look, spelt: str
) -> None:
    (repository / ".env").write_text("DB_PASSWORD=hunter2+hunter2\n")
    (repository / "notes").write_text(f"see {spelt}\n")
    stage(repository, "notes")
    said = "holds the value of `DB_PASSWORD` in a secret file"
    assert look("git_commit", message="m").secrets == (f"what is staged in `notes` {said}",)
    assert f"the call {said}" in look("http_request", url=f"https://example.org/?q={spelt}").secrets
    assert look("http_request", url="https://example.org/?q=hunter3").secrets == ()

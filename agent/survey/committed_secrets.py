"""What looks secret of what a program committed in its sandbox: its words do not tell what a script commits."""

from __future__ import annotations

from pathlib import Path

from foregate.agent.survey.secret_scan import SecretScan, quote_name
from foregate.agent.workspace.git_repository import seek_repository
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.policy.risk.reading import read_command_line, split_git
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.sandbox import SandboxedChanges
from foregate.schemas.tool_call import Command, Survey

_MOVED = ("HEAD", "packed-refs", "refs/heads/", "refs/tags/", "reftable/")
"""Where the git folder says what branches and tags lead to."""
_PLAIN = (
    "add",
    "stage",
    "commit",
    "merge",
    "cherry-pick",
    "revert",
    "tag",
    "branch",
    "push",
    "gc",
    "status",
    "diff",
    "log",
)
"""Subcommands that commit no more than the scan of the command itself looks through."""


def find_committed_secrets(
    found: SandboxedChanges, judged: Survey, workspace: Workspace, policy: Policy
) -> tuple[str, ...]:
    """Return what looks secret of all that may have been committed where a sandbox made commits.

    That is what is staged, changed or untracked in the workspace, which has none of the changes yet, and every file
    that the program made or edited. What cannot be looked at is said, and counts. `judged` is how the command was
    looked at before. Nothing is found again where a person was asked about it, or where its own words tell all that it
    commits.
    """
    folders = _list_committed_folders(found)
    if not folders or judged.secrets or (judged.command is not None and _is_plain_git(judged.command, policy)):
        return ()
    scan = SecretScan(workspace, policy)
    leaks: list[str] = []
    for folder in folders:
        try:
            repository = seek_repository(workspace, policy, folder)
            if repository is not None:
                repository.check_safe()
                leaks += scan.scan_tree(repository, adds=True)
        except (WorkspaceError, OSError) as error:
            leaks.append(f"what git committed cannot be looked at: {error}"[:200])
    written: dict[str, bytes] = {}
    for path in _list_written(found):
        try:
            with Path(found.upper, "upper", path).open("rb") as file:
                written[path] = file.read(policy.files.max_read)
        except OSError as error:
            leaks.append(f"{quote_name(path)} is written and cannot be looked at: {error.strerror}")
    leaks += scan.scan_files(written.items(), [*written], "written")
    return tuple(dict.fromkeys(leaks))


def _list_committed_folders(found: SandboxedChanges) -> list[str]:
    """Return the folders of the repositories in which both an object was made and a branch or a tag moved."""
    inside = [(split_git_path(change.path), change.after.kind) for change in found.changes]
    made = {parts[0] for parts, kind in inside if parts is not None and kind and parts[1].startswith("objects/")}
    moved = (parts[0] for parts, _ in inside if parts is not None and parts[1].startswith(_MOVED))
    return [folder for folder in dict.fromkeys(moved) if folder in made]


def _is_plain_git(command: Command, policy: Policy) -> bool:
    """Whether a command runs nothing but git, and of that only what its words tell."""
    segments = [one for one in read_command_line(command, policy).segments if one.words[:1] != ("cd",)]
    gits = [(split_git(one)[1] or ("",))[0] for one in segments if one.words[:1] == ("git",) and not one.variables]
    return 0 < len(segments) == len(gits) and set(_PLAIN).issuperset(gits)


def _list_written(found: SandboxedChanges) -> list[str]:
    """Return the files the program made or edited, outside the git folders."""
    files = (change.path for change in found.changes if change.after.kind == "file")
    return [path for path in files if split_git_path(path) is None]


def split_git_path(path: str) -> tuple[str, str] | None:
    """Return the folder of a repository and a path in its git folder, None for a path that lies in none."""
    parts = path.split("/")
    if ".git" not in parts:
        return None
    at = parts.index(".git")
    return "/".join(parts[:at]) or ".", "/".join(parts[at + 1 :])

"""Keeping the agent's hands off Foregate's own files when they lie inside the workspace."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from foregate.schemas.errors import UsageError


def find_protected_globs(workspace: Path, own: Iterable[Path], files: Iterable[Path] = ()) -> list[str]:
    """Return the globs that stand for what of the `own` folders and `files` lies in the workspace, for
    `files.protected`; a file that is a link counts as link and as what it leads to.

    Raises UsageError where the workspace itself lies in an own folder: nothing in it would be the agent's to touch.
    """
    root = workspace.resolve()
    folders = [path.resolve() for path in own]
    for path in folders:
        if root == path or path in root.parents:
            raise UsageError(f"the workspace `{root}` lies in Foregate's own folder `{path}`; choose another")
    ways = [way for path in files for way in (path.resolve(), path.parent.resolve() / path.name)]
    inside = [path for path in (*folders, *ways) if root in path.parents]
    return [escape_glob(path.relative_to(root).as_posix()) for path in dict.fromkeys(inside)]


def escape_glob(path: str) -> str:
    """Return a glob for one path; a character that globs read as more than itself stands for any one character."""
    return "".join("?" if char in "*?[]{}!\\" else char for char in path)

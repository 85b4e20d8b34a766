"""Keeping the agent's hands off Foregate's own files when they lie inside the workspace."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from foregate.schemas.errors import UsageError


def guarded(workspace: Path, own: Iterable[Path]) -> list[str]:
    """Return the globs that stand for the `own` paths that lie in the workspace, for `files.protected`.

    Raises UsageError where the workspace itself lies in one of them: then nothing in it would be the agent's to touch.
    """
    root, found = workspace.resolve(), []
    for path in (path.resolve() for path in own):
        if root == path or path in root.parents:
            raise UsageError(f"the workspace `{root}` lies in Foregate's own folder `{path}`; choose another")
        if root in path.parents:
            found.append(literal(path.relative_to(root).as_posix()))
    return found


def literal(path: str) -> str:
    """Return a glob for one path; a character that globs read as more than itself stands for any one character."""
    return "".join("?" if char in "*?[]{}!\\" else char for char in path)

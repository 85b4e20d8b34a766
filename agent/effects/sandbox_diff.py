"""What a program changed in its sandbox, as a person and a model are shown it: the true diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path

from foregate.agent.tools.tool import cap_text
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.protocols import FileChange
from foregate.schemas.sandbox import PathChange, SandboxedChanges

_SHOWN = 200
"""Paths that are shown one by one."""


def list_file_changes(workspace: Workspace, found: SandboxedChanges, largest: int) -> list[FileChange]:
    """Return the files that were changed, as they are and as they would be, those left out that are larger."""
    changes = []
    for change in found.changes:
        before, after = change.before, change.after
        is_file = {before.kind, after.kind} <= {"", "file"}
        if not is_file or max(before.size, after.size) > largest or ".git" in change.path.split("/"):
            continue
        try:
            old = workspace.read(change.path, limit=largest) if before.kind else None
            new = Path(found.upper, "upper", change.path).read_bytes() if after.kind else b""
        except (WorkspaceError, OSError):
            continue
        changes.append(FileChange(change.path, old, new))
    return changes


def format_diff(workspace: Workspace, found: SandboxedChanges, most: int) -> str:
    """Return a line for each path with what became of it, and the diffs of those that are text, in `most` bytes."""
    lines = [*format_paths(found.changes)]
    for change in list_file_changes(workspace, found, most):
        lines += _diff_lines(change)
    return cap_text(strict_json.scrub("\n".join(lines)), most)[0]


def format_paths(changes: Sequence[PathChange]) -> Iterator[str]:
    """Yield `delete a.txt` for each path, git's own left to one line, and how many more there are."""
    own = [change for change in changes if ".git" in change.path.split("/")]
    rest = [change for change in changes if change not in own] if own else list(changes)
    for change in rest[:_SHOWN]:
        path = f"{change.path}/" if "directory" in (change.before.kind, change.after.kind) else change.path
        yield f"{change.effect.value} {path}"
    if len(rest) > _SHOWN:
        yield f"... and {len(rest) - _SHOWN} more"
    if own:
        yield f"edit the repository ({len(own)} files of git's own)"


def _diff_lines(change: FileChange) -> Iterator[str]:
    old, new = (data.decode("utf-8", "replace").splitlines() for data in (change.before or b"", change.after))
    if b"\0" in change.after or b"\0" in (change.before or b""):
        return
    yield from unified_diff(old, new, f"a/{change.path}", f"b/{change.path}", lineterm="")

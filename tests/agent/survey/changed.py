"""What a line of the shell changes in a workspace, as a sandbox lists it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from foregate.schemas.sandbox import PathChange, PathState, SandboxedChanges
from foregate.schemas.tool_spec import Effect

GIT = "git -c user.name=a -c user.email=a@b.c"


def run(line: str, folder: Path) -> None:
    subprocess.run(["/bin/sh", "-ec", line], cwd=folder, check=True, capture_output=True)


def run_in_copy(line: str, folder: Path, after: Path) -> SandboxedChanges:
    """Run a line in the copy `after` of a folder, and return what it changed."""
    shutil.copytree(folder, after)
    run(line, after)
    old, new = look(folder), look(after)
    nothing = PathState()
    changes = tuple(
        PathChange(path, name_effect(path, old, new), old.get(path, nothing), new.get(path, nothing))
        for path in sorted({*old, *new})
        if old.get(path) != new.get(path)
    )
    return SandboxedChanges(changes, str(after.parent))


def look(folder: Path) -> dict[str, PathState]:
    found = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = PathState("link", hashlib.sha256(bytes(path.readlink())).hexdigest())
        elif path.is_file():
            found[str(path.relative_to(folder))] = PathState("file", hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def name_effect(path: str, old: dict[str, PathState], new: dict[str, PathState]) -> Effect:
    return Effect.DELETE if path not in new else Effect.EDIT if path in old else Effect.CREATE

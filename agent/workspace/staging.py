"""The folder in which new contents wait to be put in their places, and in which lies what they replaced."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from foregate.agent.workspace.path_state import READ_FOLDER, is_at, look_at
from foregate.agent.workspace.path_step import Step, open_parent
from foregate.agent.workspace.renaming import exchange, move_new
from foregate.agent.workspace.workspace import Workspace, refuse_errors

_AT_ONCE = 8
_READY = "ready"
"""A name in a staging folder that says that everything is written: from now on things come and go."""


def mark_ready(staging: int) -> None:
    """Say of an open staging folder that everything in it is written, before the first of it is put in its place."""
    os.close(os.open(_READY, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=staging))


def remove_staging(root: int, name: str) -> None:
    """Remove a staging folder and what is left in it, as far as that can be done."""
    with suppress(OSError):
        staging = os.open(name, READ_FOLDER, dir_fd=root)
        try:
            inside = os.listdir(staging)  # noqa: PTH208 - a descriptor is no path
            # Starting threads takes longer.
            if len(inside) <= _AT_ONCE:
                for old in inside:
                    os.unlink(old, dir_fd=staging)
            else:
                # One after the other, each waits for a busy disk.
                with ThreadPoolExecutor(_AT_ONCE) as pool:
                    list(pool.map(lambda old: os.unlink(old, dir_fd=staging), inside))
        finally:
            os.close(staging)
        os.rmdir(name, dir_fd=root)


def clear_staging(workspace: Workspace, name: str, steps: Sequence[Step]) -> list[str]:
    """Remove the staging folder of a dead process; return the paths to which it had to bring something back.

    That is what came out of a place and is not what was to be replaced: somebody saved it in the last moment. Raises
    WorkspaceError where it cannot be brought back.
    """
    found = []
    with refuse_errors("read", name), workspace.directory(".") as root:
        if not workspace.look(name).kind:
            return []
        staging = os.open(name, READ_FOLDER, dir_fd=root)
        try:
            by_number = {str(step.number): step for step in steps}
            names = os.listdir(staging)  # noqa: PTH208 - a descriptor is no path
            for inside in sorted(names) if _READY in names else ():
                step = by_number.get(inside.removesuffix(".old"))
                if step is not None and _bring_back(workspace, staging, inside, step):
                    found.append(step.path)
        finally:
            os.close(staging)
        remove_staging(root, name)
    return found


def _bring_back(workspace: Workspace, staging: int, name: str, step: Step) -> bool:
    """Bring back what came out of the place of a step, where it is not what was to; return whether it was so."""
    state = look_at(staging, name).state
    if is_at(state, step.now) or is_at(state, step.then):
        return False
    with suppress(FileNotFoundError, NotADirectoryError), open_parent(workspace, step.path) as (folder, own):
        there = look_at(folder, own).state
        if not there.kind and step.now.kind:
            move_new(staging, name, folder, own)
            return True
        if there.kind and is_at(there, step.then):
            return exchange(staging, name, folder, own)
    return False

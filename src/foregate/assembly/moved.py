"""A workspace that was moved: where it is now, and whether that folder can be the one the session worked in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from foregate.schemas.errors import WorkspaceError
from foregate.schemas.event_body import PolicyChanged, SessionStarted
from foregate.schemas.protocols import Log
from foregate.schemas.tool_spec import ResourceKind

if TYPE_CHECKING:
    from foregate.agent.workspace.workspace import Workspace
    from foregate.evidence.state.session import SessionState

_LOOKED_AT, _NAMED = 500, 3
"""Files that are looked at, and that a sentence names, at most."""


async def find_root(log: Log, name: str, began: SessionStarted) -> str:
    """Return the folder a session works in: where it began, or where a person said last that it was moved to."""
    from foregate.agent.session.snapshots import read_kept_state

    kept = await read_kept_state(log, name)
    seq, root = (kept.seq, kept.root) if kept is not None else (0, began.workspace)
    changes = await log.read(name, after=seq, kinds=("policy_changed",))
    moves = (event.body.workspace for event in reversed(changes) if isinstance(event.body, PolicyChanged))
    return next((moved for moved in moves if moved is not None), root)


def check_moved(workspace: Workspace, state: SessionState, before: str, *, max_hash: int) -> str:
    """Return what a person should know of a folder they named as the workspace of a session.

    Raises WorkspaceError where it is evidently another one: none of the files that the session knew is there as it
    was. Where a few of many are that proves little; but nothing that was observed before counts there. Files of up to
    `max_hash` bytes are looked at.
    """
    known = {}
    for resource, records in state.ledger.resources().items():
        seen = max((one for one in records if one.hash), key=lambda one: one.seq, default=None)
        if resource.kind is ResourceKind.FILE and seen is not None:
            known[resource.id] = seen.hash
    newest = list(known)[-_LOOKED_AT:]
    same = [path for path in newest if _hash_file(workspace, path, max_hash) == known[path]]
    root, still = workspace.root, "; the old folder is still there" if Path(before).is_dir() else ""
    if not newest:
        return f"the workspace is now `{root}`, on your word alone: the session knew no file of it{still}"
    if not same:
        named = ", ".join(f"`{path}`" for path in newest[-_NAMED:])
        why = f"none of the {len(newest)} files that the session knew is there as it was ({named})"
        raise WorkspaceError(f"`{root}` is not what `{before}` was: {why}; name the folder that was moved")
    alike = f"{len(same)} of {len(newest)} files that the session knew are as they were"
    return f"the workspace is now `{root}`: {alike}; what was observed before has to be looked at again{still}"


def _hash_file(workspace: Workspace, path: str, max_hash: int) -> str:
    try:
        found = workspace.look(path, max_hash=max_hash)
    except WorkspaceError:
        return ""
    return found.hash if found.kind == "file" else ""

"""What git commands of a call had locked when it was killed, so that the session can go on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime

from foregate.agent.session.session import Session
from foregate.agent.workspace.git_folder import describe_removed, remove_dead_locks
from foregate.agent.workspace.git_repository import seek_repository
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.event_body import ToolStarted
from foregate.schemas.tool_spec import ResourceKind


async def remove_left_locks(session: Session, started: ToolStarted, at: str) -> str:
    """Remove the locks that a dead call left in its repositories; return what is said of that, "" for nothing.

    `at` is the UTC time at which the call started, as its event says it. A call that names no repository may have run
    git where the workspace is one.
    """
    named = [image.id for image in started.before if image.kind is ResourceKind.REPOSITORY]
    return await asyncio.to_thread(_remove, session, named or ["."], at)


def _remove(session: Session, places: list[str], at: str) -> str:
    since, removed = round(datetime.fromisoformat(at).timestamp() * 1e9), []
    for place in places:
        # What git may not enter has no locks of ours.
        with suppress(WorkspaceError):
            if (repository := seek_repository(session.workspace, session.policy, place)) is not None:
                removed += remove_dead_locks(session.workspace, repository.git, since)
    return describe_removed(removed)

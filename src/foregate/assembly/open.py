"""Putting a session together: home, log, policy, model, tools and workspace, from arguments and environment."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from msgspec import Struct

from foregate.assembly.choices import choose_model
from foregate.assembly.home import find_session, open_place
from foregate.assembly.setting import SessionOptions
from foregate.schemas.errors import LogError
from foregate.schemas.event_body import SessionStarted
from foregate.schemas.protocols import Log

if TYPE_CHECKING:
    from foregate.agent.planning.configuration import Configuration
    from foregate.agent.session.session import Session
    from foregate.agent.workspace.workspace import Workspace
    from foregate.assembly.followed_policy import FollowedPolicy
    from foregate.assembly.model_roles import ModelRoles


class OpenSession(Struct):
    """An open session, the policy file it follows, plan mode's configuration and models, and `notes` for a person.

    `_resources` are what was opened for the session, closed after it in the opposite order.
    """

    session: Session
    followed: FollowedPolicy
    workspace: Workspace
    name: str
    resumed: bool
    configuration: Configuration
    roles: ModelRoles
    dialect: str
    notes: tuple[str, ...]
    _resources: AsyncExitStack

    @property
    def follows_ended(self) -> bool:
        """Whether the session follows one that had ended, and ends again when it is left."""
        return self.session.log.is_further

    async def close(self, *, end: bool = True) -> None:
        """Close the session; with `end` False, or while a task is open, its log stays open for a later resume."""
        async with self._resources:
            await self.session.close(end=end and self.session.state.task is None)


async def open_session(setting: SessionOptions) -> OpenSession:
    """Open a new session, or an existing one where `resume` names it; nothing is written when this raises.

    Raises UsageError, WorkspaceError, PolicyError, LogError or SessionHeld, each one sentence.
    """
    from foregate.agent.models.openai.model import OpenAIModel
    from foregate.agent.session.linked import find_lineage
    from foregate.assembly.opening import Opening, open_following, open_fresh, open_resumed

    async with AsyncExitStack() as resources:
        place = open_place(setting, resources)
        # A wrong name is said before any model is waited for.
        wanted = await find_session(place.log, setting.resume) if setting.resume else ""
        model, notes = choose_model(setting)
        if isinstance(model, OpenAIModel):
            if model is not setting.model:
                resources.push_async_callback(model.close)
            await model.resolve()
        opening = Opening(setting, place, model, notes, resources)
        if not wanted:
            session = await open_fresh(opening)
        else:
            lineage = await find_lineage(place.log, wanted)
            open_known = open_resumed if lineage.follows is None else open_following
            session = await open_known(opening, lineage, await read_beginning(place.log, lineage.newest))
        return OpenSession(
            session,
            opening.rules.followed,
            opening.workspace,
            session.name,
            bool(wanted),
            opening.configuration,
            opening.roles,
            opening.dialect,
            opening.list_notes(session),
            resources.pop_all(),
        )


async def read_beginning(log: Log, name: str) -> SessionStarted:
    """Return what a session of the log began with; raise LogError for a session without a beginning."""
    first = await log.read(name, limit=1)
    if not first or not isinstance(first[0].body, SessionStarted):
        raise LogError(f"session `{name}` does not begin as a session; `foregate audit verify` tells more")
    return first[0].body

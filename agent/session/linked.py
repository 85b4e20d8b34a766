"""Continuing a session that has ended: in a session of its own, which knows what the other one did."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from foregate.agent.session.session_log import fold_session
from foregate.evidence.state.session import SessionState
from foregate.schemas.errors import LogError, SessionHeld
from foregate.schemas.event import Draft
from foregate.schemas.event_body import PolicyChanged, SessionStarted
from foregate.schemas.protocols import Log, QuestionStore
from foregate.schemas.session_link import SessionLink, name_further


class Lineage(Struct, frozen=True):
    """The session in whose log one is resumed, those before it, oldest first, and the ended one it follows.

    `follows` is None where the log is there and goes on; then the last of `before` is what it followed, if anything.
    """

    name: str
    before: tuple[str, ...] = ()
    follows: SessionLink | None = None

    @property
    def newest(self) -> str:
        """The newest session that has begun."""
        return self.before[-1] if self.follows is not None else self.name


async def find_lineage(log: Log, name: str) -> Lineage:
    """Return how the session `name` is resumed: in its own log while it has not ended, else in a further one.

    Raises LogError for a session that is not there, and SessionHeld for one that has ended and that a process has open.
    """
    root = [*await list_before(log, name), name][0]
    chain, number = [root], 2
    head = await log.head(root)
    while True:
        further = name_further(root, number)
        try:
            next_ = await log.head(further)
        except LogError:
            # No session has that name.
            break
        if next_.seq == 0 or await _read_link(log, further) is None:
            # Its process ended before its first event, so that the name is free.
            break
        chain, head, number = [*chain, further], next_, number + 1
    holder = await log.find_holder(chain[-1]) if isinstance(log, QuestionStore) and head.ended else ""
    if holder:
        raise SessionHeld(f"session `{chain[-1]}` is open in {holder}; close it there, or start another session here")
    if not head.ended:
        return Lineage(chain[-1], tuple(chain[:-1]))
    return Lineage(further, tuple(chain), SessionLink(chain[-1], head.seq, head.hash))


async def list_before(log: Log, name: str) -> list[str]:
    """Return the sessions that one continues, oldest first; raise LogError where one of them is not there."""
    found: list[str] = []
    while (link := await _read_link(log, name)) is not None and link.session not in found:
        name = link.session
        found.insert(0, name)
    return found


async def _read_link(log: Log, name: str) -> SessionLink | None:
    for event in await log.read(name, limit=1):
        return event.body.follows if isinstance(event.body, SessionStarted) else None
    return None


async def fold_lineage(log: Log, lineage: Lineage, unread: Callable[[str], object] = lambda why: None) -> SessionState:
    """Return the state that the sessions of a lineage lead to, those that have begun; see `fold_session`."""
    *before, newest = lineage.before if lineage.follows is not None else (*lineage.before, lineage.name)
    return await fold_session(log, newest, before, unread)


def draft_switches(state: SessionState) -> list[Draft]:
    """Return what an ended session had switched otherwise than a new one has it."""
    body = PolicyChanged(
        auto=state.auto or None, dry_run=state.dry_run or None, mode=state.mode if state.mode != "direct" else None
    )
    return [Draft(body, "foregate")] if body != PolicyChanged() else []

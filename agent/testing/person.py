"""A person who answers as a script says, for tests and demonstrations. It fails on steps missing or left over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from foregate.agent.testing.model import ScriptError
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply

Answer = Reply | str | None | Callable[[Need], Reply | None]


@dataclass
class ScriptedPerson:
    """Gives `replies` in order: a Reply, a choice, None for not now, or a function of the need.

    Call `finish` at the end: it raises ScriptError when replies are left over. `needs` keeps what was asked.
    """

    replies: Iterable[Answer]
    needs: list[Need] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rest = list(self.replies)[::-1]

    async def answer(self, need: Need) -> Reply | None:
        """Return the next reply; raise ScriptError when the script is over."""
        self.needs.append(need)
        if not self._rest:
            raise ScriptError(f"the script is over, and the person was asked once more (by `{need.gate}`)")
        reply = self._rest.pop()
        if callable(reply):
            return reply(need)
        return Reply(reply) if isinstance(reply, str) else reply

    def finish(self) -> None:
        """Raise ScriptError when the session ended before the script."""
        if self._rest:
            raise ScriptError(f"{len(self._rest)} replies of the script were never asked for")

"""Who plans what a session may not simply do: the loop hands the task over, and gets back how it ended or paused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from foregate.agent.outcome import Outcome
    from foregate.agent.session import Session


class Desk(Protocol):
    """Takes an open task through the plan its log asks for."""

    async def go_on(self, session: Session) -> Outcome:
        """Make the plan the task wants, have it confirmed, run it; from wherever the log says that this stands."""

    def pause(self) -> bool:
        """Let a plan that runs pause after the call in hand; whether one runs."""

"""Who plans what a session may not simply do: the loop hands the task over, and gets back how it ended or paused."""

from __future__ import annotations

from typing import Protocol

from foregate.agent.session.result import RunResult


class PlanDriver(Protocol):
    """Takes the open task of its session through the plan the log asks for."""

    async def drive_task(self) -> RunResult:
        """Make the plan the task wants, have it confirmed, run it; from wherever the log says that this stands."""

    def pause(self) -> bool:
        """Let a plan that runs pause after the call in hand; whether one runs."""

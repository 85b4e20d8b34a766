"""Whoever answers for the user: carefully, by what the task says the user wants, or waving everything through."""

from __future__ import annotations

from fnmatch import fnmatchcase

from foregate.schemas.need import Need
from foregate.schemas.protocols import Reply
from guarding.task import Task


class Asked:
    """A Person; `prompts` counts the questions, `careless` says yes to all of them."""

    def __init__(self, task: Task, *, careless: bool = False) -> None:
        self.task, self.careless = task, careless
        self.prompts = 0

    async def answer(self, need: Need) -> Reply:
        """Say yes to a sheet when everything on it is what the user wants; stop a call that was held twice."""
        self.prompts += 1
        if need.gate == "loop":
            return Reply("anyway" if self.careless and need.request.get("can_override") else "stop", by="the user")
        shown = [f"{call['tool']} {call['target']}" for call in need.request.get("calls", ())]
        agreed = self.careless or all(self.wanted(line) for line in shown)
        return Reply("yes", by="the user") if agreed else Reply("no", "not what I asked for", by="the user")

    def wanted(self, line: str) -> bool:
        """Whether the user wants what a line of the sheet says, read as it is shown: tool and resolved target."""
        return self.task.agrees is None or any(fnmatchcase(line, glob) for glob in self.task.agrees)

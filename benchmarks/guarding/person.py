"""Whoever answers for the user: carefully, by what the task says the user wants, or waving everything through."""

from __future__ import annotations

from fnmatch import fnmatchcase

from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json, as_texts, get_list, get_object, get_text
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
        agreed = self.careless or (
            all(self.wanted(call) for call in get_list(need.request, "calls"))
            and all(
                self.planned(get_text(item, "pattern")) for item in get_list(get_object(need.request, "plan"), "items")
            )
        )
        return Reply("yes", by="the user") if agreed else Reply("no", "not what I asked for", by="the user")

    def wanted(self, call: Json) -> bool:
        """Whether the user wants what a call on the sheet says, and nothing on it puts them off."""
        line = f"{get_text(call, 'tool')} {get_text(call, 'target')}"
        why, there = (as_texts(get_list(call, key)) for key in ("why", "there"))
        shown = f"{line} {get_text(call, 'arguments')} {' '.join(why)} there already: {', '.join(there)}"
        if any(fnmatchcase(shown, glob) for glob in self.task.refuses):
            return False
        return self.task.agrees is None or any(fnmatchcase(line, glob) for glob in self.task.agrees)

    def planned(self, target: str) -> bool:
        """Whether the user wants something done to a target of the plan: a yes covers that as well."""
        if self.task.agrees is None or target.startswith("sha256:"):
            return True
        return any(fnmatchcase(target, glob.partition(" ")[2]) for glob in self.task.agrees)

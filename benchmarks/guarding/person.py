"""Whoever answers for the user: carefully, by what the task says the user wants, or waving everything through."""

from __future__ import annotations

from fnmatch import fnmatchcase

from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json, as_texts, get_list, get_object, get_text
from guarding.task import Task


class Asked:
    """A Person; `prompts` counts the questions and the values to be named, `careless` says yes and names nothing.

    One who is `naming` as well types whatever value is asked for.
    """

    def __init__(self, task: Task, *, careless: bool = False, naming: bool = False) -> None:
        self.task, self.careless, self.naming = task, careless, naming
        self.prompts = 0

    async def answer(self, need: Need) -> Reply:
        """Say yes to each call of a sheet that the user wants; stop a call that was held twice."""
        calls = get_list(need.request, "calls")
        self.prompts += 1 + sum(len(get_list(call, "to_name")) for call in calls)
        if need.gate == "loop":
            return Reply("anyway" if self.careless and need.request.get("can_override") else "stop", by="the user")
        asked = {get_text(call, "call"): tuple(as_texts(get_list(call, "to_name"))) for call in calls}
        if self.careless:
            return Reply("yes", by="the user", named=asked if self.naming else {})
        wanted = {get_text(call, "call"): self.wanted(call) for call in calls}
        items = get_list(get_object(need.request, "plan"), "items")
        agreed = all(self.planned(get_text(item, "pattern")) for item in items)
        if not agreed or (calls and not any(wanted.values())):
            return Reply("no", "not what I asked for", by="the user")
        named = {name: values for call in calls if wanted[name := get_text(call, "call")] and (values := asked[name])}
        unknown = [tool for call in calls if (tool := get_text(get_object(call, "undeclared"), "tool", ""))]
        declared: dict[str, Json] = {tool: self.task.declares[tool] for tool in unknown if tool in self.task.declares}
        if all(wanted.values()):
            return Reply("yes", by="the user", named=named, declared=declared)
        each = {call: "yes" if yes else "no" for call, yes in wanted.items()}
        return Reply("no", "not what I asked for", by="the user", calls=each, named=named, declared=declared)

    def wanted(self, call: Json) -> bool:
        """Whether the user wants what a call on the sheet says, and nothing on it puts them off."""
        line = f"{get_text(call, 'tool')} {get_text(call, 'target')}"
        why, there = (as_texts(get_list(call, key)) for key in ("why", "there"))
        full = f"{line} {get_text(call, 'arguments')}"
        shown = f"{full} {' '.join(why)} there already: {', '.join(there)}"
        if any(fnmatchcase(shown, glob) for glob in self.task.refuses):
            return False
        return self.task.agrees is None or any(
            fnmatchcase(text, glob) for glob in self.task.agrees for text in (line, full)
        )

    def planned(self, target: str) -> bool:
        """Whether the user wants something done to a target of the plan: a yes covers that as well."""
        if self.task.agrees is None or target.startswith("sha256:"):
            return True
        wanted = [glob.partition(" ")[2] for glob in self.task.agrees]
        return any(fnmatchcase(target, glob) for rest in wanted for glob in (rest, rest.partition(" ")[0]))

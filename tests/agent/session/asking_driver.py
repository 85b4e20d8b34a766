"""A process that does one thing about a question on a real home: asks it, answers it, or goes on with its task.

Arguments: what to do, the home, the workspace, and how many seconds later its clock is. `ask` prints `asked` once the
question is shown, and waits for ever; `sit` does so, and its person never answers; `answer` says its last argument to
the question; `go_on` sees the task through with nobody there. What came of it is a line of JSON on its output.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import foregate
from foregate.testing import ScriptedModel, calls, says

POLICY = """
version: 1
rules: {list: [{id: ask-stamps, then: ask, tool: stamp}]}
approval: {expires: 36000}
"""
_real: Callable[[], int] = time.time_ns


class Waiting:
    """A person to whom the question is shown, and who never answers."""

    async def answer(self, need: foregate.Need) -> foregate.Reply | None:
        """Say that it is shown, and wait."""
        print("asked", flush=True)
        await asyncio.Event().wait()
        raise AssertionError("nobody answers here")


def stamping(stamps: Path) -> Any:
    """Return the tool `stamp`, whose every run adds a line to a file."""

    @foregate.tool(effect="edit", targets={"form": "other"})
    def stamp(form: str) -> str:
        """Stamp a form."""
        with stamps.open("a") as file:
            file.write(f"{form}\n")
        return "stamped"

    return stamp


def build_agent(home: Path, workspace: Path, person: Any, *, resume: str = "") -> foregate.Agent:
    """Return the agent that wants to stamp a form, or the one that goes on."""
    policy = home.with_name("policy.yaml")
    policy.write_text(POLICY)
    steps = [says("It is stamped.")]
    if not resume:
        steps = [calls(("stamp", {"form": "k"}), text="I will stamp form k as you asked."), *steps]
    tools = [stamping(home.with_name("stamps"))]
    model = ScriptedModel(steps)
    options: dict[str, Any] = {"builtin": False, "policy": policy, "resume": resume, "workspace": workspace}
    return foregate.Agent(model=model, tools=tools, person=person, **options)


async def act(what: str, home: Path, workspace: Path, more: list[str]) -> Mapping[str, Any]:
    """Do it, and return what came of it."""
    if what in ("answer", "list"):
        with foregate.Approvals() as approvals:
            if what == "list":
                return {"open": [question.name for question in await approvals.list()]}
            print("ready", flush=True)
            sys.stdin.readline()
            return {"delivery": await approvals.answer("last", foregate.Reply(more[0], by=more[1]))}
    resume = "last" if what == "go_on" else ""
    agent = build_agent(home, workspace, Waiting() if what == "ask" else None, resume=resume)
    async with agent:
        if not resume:
            return {"status": (await agent.run("stamp form k")).status}
        return {"status": (await agent.go_on()).status}


def main() -> None:
    """Do what the arguments say."""
    what, home, workspace, later, *more = sys.argv[1:]
    os.environ["FOREGATE_HOME"] = home
    time.time_ns = lambda: _real() + int(later) * 10**9
    try:
        print(json.dumps(asyncio.run(act(what, Path(home), Path(workspace), more))), flush=True)
    except foregate.ForegateError as error:
        print(json.dumps({"error": str(error)}), flush=True)


if __name__ == "__main__":
    main()

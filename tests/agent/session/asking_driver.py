"""Processes that each do one thing about a question on a real home: ask it, answer it, or go on with its task.

Arguments: what to do, the home, the workspace, and how many seconds later the clock is. `ask` prints `asked` once the
question is shown, and waits for ever; `sit` does so, and its person never answers; `answer` says its last argument to
the question; `go_on` sees the task through with nobody there. What came of it is a line of JSON on its output.

It forks a child for each list of arguments that comes over its input, a socket, with three
descriptors: the input and output of the child, and where its number is told. So only the first pays for what is loaded.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import foregate
from foregate.agent.sandbox.guard import receive_request
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


def warm_up() -> None:
    """Play a session here, so that no child has to load and compile anew what that needs."""
    with tempfile.TemporaryDirectory() as root:
        os.environ["FOREGATE_HOME"] = f"{root}/home"
        for what in ("sit", "list"):
            asyncio.run(act(what, Path(root, "home"), Path(root), []))
    assert threading.active_count() == 1, "a fork would lose the other threads"
    gc.freeze()


def serve(asked: socket.socket) -> None:
    """Fork a child for each request until none comes any more."""
    warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while received := receive_request(asked):
        body, (into, out, told) = received
        if (child := os.fork()) == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(into, 0)
            os.dup2(out, 1)
            asked.close()
            for descriptor in (into, out, told):
                os.close(descriptor)
            do_told(*json.loads(body))
            os._exit(0)
        os.write(told, f"{child}\n".encode())
        for descriptor in (into, out, told):
            os.close(descriptor)


def do_told(what: str, home: str, workspace: str, later: str, *more: str) -> None:
    """Do what the arguments say."""
    os.environ["FOREGATE_HOME"] = home
    time.time_ns = lambda: _real() + int(later) * 10**9
    try:
        print(json.dumps(asyncio.run(act(what, Path(home), Path(workspace), [*more]))), flush=True)
    except foregate.ForegateError as error:
        print(json.dumps({"error": str(error)}), flush=True)


if __name__ == "__main__":
    serve(socket.socket(fileno=os.dup(0)))

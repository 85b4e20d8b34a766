"""Forks a process for every order on standard input; each runs one session over again or goes on with it.

An order is JSON on a line: `home`, `workspace`, `mark`, and with `heavy` the calls that start many processes. Two lines
come back: the number of the process, and `outcome` and whatever else is known when it ended by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import calls, says
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy
from foregate.schemas.judgement import Need
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Reply

Step = tuple[str, dict[str, Any]]
HEAVY = 8
"""Calls that start many processes."""


def list_steps(mark: str) -> list[Step]:
    """Return the calls of a session; programs that would stay have the mark in their words."""
    stay = f"(setsid sleep {mark} &) ; sleep {mark} & "
    copy = "echo first >> journal.txt; mkdir made; for i in 1 2 3; do cp a.txt made/$i; done"
    move = "echo second >> journal.txt; mv made/1 made/one; rm made/2; mkdir -p deep/er; cp b.txt deep/er"
    link = "echo fourth >> journal.txt; ln -s a.txt link; chmod 600 b.txt; rm -r made"
    return [
        ("read_file", {"path": "a.txt"}),
        ("run_command", {"argv": ["cat", "a.txt", "b.txt"]}),
        ("run_shell", {"command": "grep -rn line . | sort | head -3"}),
        ("edit_file", {"path": "a.txt", "old": "one", "new": "two"}),
        ("run_shell", {"command": stay + copy}),
        ("run_command", {"argv": ["git", "status", "--short"]}),
        ("run_shell", {"command": move}),
        ("run_command", {"argv": [sys.executable, "-c", "open('journal.txt', 'a').write('third\\n')"]}),
        ("git_status", {}),
        ("git_add", {"paths": ["a.txt"]}),
        ("write_file", {"path": "deep/new.txt", "content": "new\n"}),
        ("run_shell", {"command": link}),
        ("run_command", {"argv": ["ls", "-la"]}),
    ]


def list_heavy(mark: str) -> list[Step]:
    """Return calls that leave many processes behind where nobody ends them."""
    line = f"for i in $(seq 60); do (setsid sleep {mark} &) ; sleep {mark} & done; echo"
    return [("run_shell", {"command": f"{line} {number}"}) for number in range(HEAVY)]


class Careful:
    """A Model that takes the steps in order and repeats none whose result it was told, or that is unknown."""

    name = "careful"

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Return the first step that is not settled."""
        made = {call.id: (call.name, call.arguments) for message in request.messages for call in message.calls}
        settled = []
        for message in request.messages:
            if message.role == "tool":
                told = json.loads(message.text).get("foregate", {})
                if told.get("code", "outcome_unknown") == "outcome_unknown":
                    settled.append(made[message.call])
        rest = [step for step in self._steps if step not in settled]
        return calls(rest[0], text="I will take the next step of what was asked.") if rest else says("done")


class Yes:
    """A Person who says yes."""

    async def answer(self, need: Need) -> Reply:
        """Say yes."""
        return Reply("anyway" if need.gate == "loop" else "yes")


def build_policy() -> Policy:
    """Return a policy whose gates let everything pass but what a person is asked about."""
    data = default_policy().model_dump(mode="json")
    for gate in ("narration", "drift", "uncertainty", "evidence", "plan", "critique"):
        data[gate]["mode"] = "off"
    return Policy.model_validate_json(json.dumps(data))


async def work(order: dict[str, Any]) -> dict[str, Any]:
    """Begin the session, or go on with the one that is there, and see its task through."""
    home = Path(order["home"])
    steps = list_heavy(order["mark"]) if order.get("heavy") else list_steps(order["mark"])
    setting = SessionOptions(
        workspace=order["workspace"],
        model=Careful(steps),
        policy=POLICY,
        person=Yes(),
        environ={"FOREGATE_HOME": str(home)},
        resume="last" if count_events(home) else "",
    )
    opened = await open_session(setting)
    inner = opened.session
    if inner.state.task is not None:
        outcome = (await run_to_outcome(inner)).status
    elif inner.state.tasks == 0:
        outcome = (await run(inner, "keep the journal, the copies and the index as we said")).status
    else:
        outcome = "over"
    await opened.close()
    return {"outcome": outcome, "open": len(os.listdir("/proc/self/fd"))}


def count_events(home: Path) -> int:
    """Return how many events are on disk."""
    if not (home / "events.db").exists():
        return 0
    connection = sqlite3.connect(home / "events.db", timeout=30)
    try:
        return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


def main() -> None:
    """Fork a process for every order."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.setsid()
            os.write(1, f"{json.dumps(os.getpid())}\n".encode())
            os.write(1, f"{json.dumps(asyncio.run(work(json.loads(line))))}\n".encode())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            os.write(1, f"{json.dumps({'outcome': f'ended by {status}'})}\n".encode())


POLICY = build_policy()

if __name__ == "__main__":
    main()

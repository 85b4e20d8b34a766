"""A process whose children each run one small session on a real home and workspace, and may kill themselves in it.

A line on its input is a JSON object: `home`, `workspace`, `stamps` (a file that grows by a line with every run of the
tool `stamp`), `staged` (whether a response comes in stages), `early` (whether looks are taken while it arrives) and
`die`: [] for never, else how and after which event number, or `before` or `after` the effect of which tool. With
`commits` the form is not stamped and the file is committed, or what `adds` names; with `shell` that line is run
instead, in a sandbox, which a person `says` to, or nothing now where that is "", and `tier` is the most that may hold
it. Then `die` may also be `running`, and a file that the line makes in its sandbox, and `disk` a folder on which a
small disk is mounted, for the child alone. What became of the child is a line on its output: `killed`, or what it said.
Children are forked, so that nobody else pays for what was loaded.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import os
import signal
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from msgspec.structs import replace

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import calls, says
from foregate.agent.sandbox.namespaces import NEW_MOUNTS, attach, make_all_private, make_mount
from foregate.agent.sandbox.system_calls import call
from foregate.agent.tools.commands import run_shell
from foregate.agent.tools.files import edit_file, read_file
from foregate.agent.tools.git import git_add, git_commit, git_status
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.local import LocalWorkspace
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.policy.source.load import default_policy
from foregate.schemas.event import Event
from foregate.schemas.judgement import Need
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import Block, Follower, ModelResponse
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolResult
from foregate.schemas.tool_spec import Capabilities, Effect, ResourceKind, TargetParameter, ToolSpec
from foregate.telemetry.log import sqlite_log, temporary_file

sys.path.insert(0, str(Path(__file__).parent))
from tiers import find_no_more_than_limited

POLICY, LOADED = default_policy(), (temporary_file, sqlite_log)
"""What every session needs, loaded before the first child is forked."""

MAKERS = (read_file, edit_file, git_status, git_add, git_commit)
TALK = "I will fix the typo in a.txt and stamp the form."
STEPS = (
    ("read_file", {"path": "a.txt"}),
    ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"}),
    ("stamp", {"form": "k"}),
)
COMMITS = (*STEPS[:2], ("git_status", {}), ("git_add", {"paths": ["a.txt"]}), ("git_commit", {"message": "fix it"}))


class Careful:
    """A model that takes the steps in order, repeats what was not done, and never what it cannot know of."""

    name = "careful"

    def __init__(self, steps: Sequence[tuple[str, dict[str, Any]]] = STEPS) -> None:
        self._steps = steps

    async def respond(self, request: ModelRequest, on_text: object = None) -> ModelResponse:
        """Return the first step that neither succeeded nor has an unknown outcome."""
        names = {call.id: call.name for message in request.messages for call in message.calls}
        settled = set()
        for message in request.messages:
            if message.role == "tool":
                answer = json.loads(message.text)
                if answer["ok"] or answer.get("foregate", {}).get("code") == "outcome_unknown":
                    settled.add(names[message.call])
        for step in self._steps:
            if step[0] not in settled:
                return told(calls(step, text=TALK), on_text)
        return says("done")


class Staged(Careful):
    """One that stamps first, in one response with the look whose result it puts on the form."""

    async def respond(self, request: ModelRequest, on_text: object = None) -> ModelResponse:
        """Return the response with both, then what is left to do."""
        if any(message.calls for message in request.messages):
            return await super().respond(request, on_text)
        form = {"form": "k", "note": "$result_of_step_1"}
        order = Block("parallel", (Block("sequential", (0, 1)),))
        return told(replace(calls(STEPS[0], ("stamp", form), text=TALK), order=order, deferred=(1,)), on_text)


def told(response: ModelResponse, on_text: object) -> ModelResponse:
    """Return the response, its calls told to whoever follows it."""
    if isinstance(on_text, Follower):
        for call in response.calls:
            on_text.call(call)
    return response


class Steady:
    """A person who says the same to everything, or nothing now."""

    def __init__(self, says: str) -> None:
        self._reply = Reply(says) if says else None

    async def answer(self, need: Need) -> Reply | None:
        """Return it."""
        return self._reply


def die_when_there(home: Path, made: Path) -> None:
    """Die once a sandbox has made a file, in the workspace or in its copy."""
    while not (made.exists() or any(home.glob(f"sandboxes/*/run-*/upper/{made.name}"))):
        os.sched_yield()
    die()


def die() -> NoReturn:
    """End this process at once, as a crash would."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody outlives it")


def deadly(tool: Tool, how: str) -> Tool:
    """Return the tool, in which the process dies before or after its effect."""

    async def run(arguments: Mapping[str, Any]) -> ToolResult:
        if how == "after":
            await tool.run(arguments)
        return die()

    return dataclasses.replace(tool, run=run)


def stamping(stamps: Path) -> Tool:
    """Return the tool `stamp`, whose every run adds a line to `stamps`."""

    async def stamp(arguments: Mapping[str, Any]) -> ToolResult:
        with stamps.open("a") as file:
            file.write(f"{arguments['form']}\n")
        return ToolResult(True, "stamped")

    schema: dict[str, Json] = {
        "type": "object",
        "properties": {key: {"type": "string"} for key in ("form", "note")},
        "required": ["form"],
    }
    nature = Capabilities(external_side_effect=False, needs_approval=False, reversible=True)
    target = TargetParameter("form", ResourceKind.OTHER, Effect.EDIT)
    return Tool(ToolSpec("stamp", "Stamp a form.", schema, Effect.EDIT, nature, (target,), "python"), stamp)


def killer(home: Path, how: str, number: int) -> Callable[[Event], None]:
    """Return a listener that dies after event `number`: `at_once`, or when it is `written` where others can read it."""

    def listen(event: Event) -> None:
        if event.seq != number:
            return
        while how == "written" and rows(home) < number:
            pass
        die()

    return listen


def mount_disk(folder: Path, files: int) -> None:
    """Mount a disk of four MiB for so many files on a folder, where no mount reaches the machine, with one in it."""
    call("unshare", NEW_MOUNTS)
    make_all_private()
    assert "shared:" not in Path("/proc/self/mountinfo").read_text()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    attach(make_mount("tmpfs", 0, size="4m", nr_inodes=str(files), mode="700"), str(folder))
    (folder / "there").write_text("kept")


def rows(home: Path) -> int:
    """Return how many events of the session are on disk."""
    connection = sqlite3.connect(home / "events.db")
    try:
        return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])
    finally:
        connection.close()


async def session(order: Mapping[str, Any]) -> dict[str, Any]:
    """Begin the session, or go on with the one that is there, and see its task through."""
    how, where = order["die"] or ("", 0)
    if order.get("disk"):
        mount_disk(Path(order["disk"]), order.get("files", 1000))
    home = Path(order["home"])
    if order.get("tier") == "limited":
        find_no_more_than_limited(setattr)
    space = LocalWorkspace(order["workspace"], home / "sandboxes")
    tools = [stamping(Path(order["stamps"])), *(make(space, POLICY) for make in MAKERS)]
    steps = COMMITS if order.get("commits") else STEPS
    if adds := order.get("adds"):
        steps = (("git_status", {}), ("git_add", {"paths": adds}), COMMITS[-1])
    shell = order.get("shell")
    if shell:
        tools, steps = [run_shell(space, POLICY)], (("run_shell", {"command": shell}),)
    if how == "running":
        threading.Thread(target=die_when_there, args=(home, Path(order["workspace"], where)), daemon=True).start()
    setting = SessionOptions(
        workspace=order["workspace"],
        model=Staged() if order.get("staged") else Careful(steps),
        policy=POLICY,
        tools=[deadly(tool, how) if tool.spec.name == where else tool for tool in tools],
        builtin=False,
        person=Steady(order["says"]) if shell else None,
        listeners=[killer(home, how, where)] if how in ("at_once", "written") else (),
        environ={"FOREGATE_HOME": str(home)},
    )
    if order.get("early"):
        (home.parent / "early.yaml").write_text("version: 1\nstreaming: {execute: observations}\n")
        setting.config = home.parent / "early.yaml"
    setting.resume = "last" if (home / "events.db").exists() and rows(home) else ""
    opened = await open_session(setting)
    inner = opened.session
    if inner.state.task is not None:
        outcome = (await run_to_outcome(inner)).status
    elif inner.state.tasks == 0 and not inner.log.is_further:
        outcome = (await run(inner, "fix the typo in a.txt and stamp form k")).status
    else:
        outcome = "over"
    await opened.close()
    space.close()
    there = Path(order["disk"], "there").read_text() if order.get("disk") else ""
    return {"session": opened.name, "outcome": outcome, "events": inner.state.seq, "disk": there}


def warm_up() -> None:
    """Play a session here, so that no child has to load and compile anew what every session needs."""
    with tempfile.TemporaryDirectory() as root:
        places = {name: Path(root, name) for name in ("home", "workspace", "stamps")}
        places["workspace"].mkdir()
        (places["workspace"] / "a.txt").write_text("teh cat")
        order = {name: str(path) for name, path in places.items()} | {"die": [], "early": True}
        assert asyncio.run(session(order))["outcome"] == "completed"
    assert threading.active_count() == 1, "a fork would lose the other threads"
    gc.freeze()


def main() -> None:
    """Fork a child for every order and say what became of it."""
    warm_up()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.write(1, f"{json.dumps(asyncio.run(session(json.loads(line))))}\n".encode())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            os.write(1, b'"killed"\n' if os.WTERMSIG(status) == signal.SIGKILL else b'"crashed"\n')
        elif os.waitstatus_to_exitcode(status):
            os.write(1, b'"failed"\n')


if __name__ == "__main__":
    main()

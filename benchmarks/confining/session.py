"""One command line in a session of its own: an obedient model sends it, a person answers, and what came of it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from guarding.robot import Robot
from guarding.task import Task

from foregate.agent.loop.runner import run
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import as_object, get_list, get_object
from foregate.telemetry.log.memory_log import MemoryLog

Says = Literal["no", "workspace", "yes"]
"""What the person answers: no to everything, yes to what asks about the workspace alone, or yes to everything, with
every name typed that a sheet wants."""
_SHELL = re.compile(r"[|&;<>()$`\\*?\[\]{}~#!\n]")
_BUILT_IN = {".", "alias", "cd", "command", "eval", "exec", "export", "hash", "set", "source", "time", "trap"}


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a line. `asked` are codes of what a person was asked, `agreed` how often they said yes.

    `code` says why it did not run, "" where it did; `extra` counts model requests beside the two that it takes.
    """

    asked: tuple[str, ...]
    agreed: int
    code: str
    exit_code: int | None
    output: str
    extra: int
    said: str

    def encode(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(asdict(self))


class Answering:
    """A Person who answers by one rule."""

    def __init__(self, says: Says) -> None:
        self.says = says
        self.asked: list[str] = []
        self.agreed = 0

    async def answer(self, need: Need) -> Reply:
        """Answer by the rule; a call that was held twice is given up."""
        self.asked.append(need.code or need.gate)
        if need.gate == "loop":
            return Reply("stop")
        agreed = self.says == "yes" or (self.says == "workspace" and is_about_workspace(need))
        self.agreed += agreed
        return Reply("yes" if agreed else "no", named=list_names(need) if self.says == "yes" else {})


def list_names(need: Need) -> dict[str, tuple[str, ...]]:
    """Return the names that a sheet wants to be typed, by call."""
    calls = [as_object(one, "a call") for one in get_list(need.request, "calls")]
    return {str(one["call"]): tuple(map(str, get_list(one, "to_name"))) for one in calls if one.get("to_name")}


def is_about_workspace(need: Need) -> bool:
    """Whether all that is asked about is the workspace and holds no secret."""
    calls = [as_object(one, "a call") for one in get_list(need.request, "calls")]
    text = json.dumps(need.request, default=str)
    return bool(calls) and not any(one.get("external") for one in calls) and "secret" not in text


def is_plain(line: str) -> bool:
    """Whether a line is words alone, which need no shell."""
    return not _SHELL.search(line) and "=" not in line.split(" ")[0] and line.split(" ")[0] not in _BUILT_IN


async def play_line(
    line: str,
    say: str,
    workspace: Path,
    home: Path,
    says: Says,
    *,
    shell: bool,
    seconds: int,
    access: Sequence[str] = (),
) -> Ran:
    """Have a model send the line in a new session, plain words by `run_command` unless `shell`."""
    plain = is_plain(line) and not shell
    most = {"timeout_ms": seconds * 1000, **({"access": list(access)} if access else {})}
    call = {"run_command": {"argv": shlex.split(line), **most}} if plain else {"run_shell": {"command": line, **most}}
    step = {"text": "I will run this in the project and then tell you what it says.", "calls": [call]}
    turn = {"say": say, "steps": [step, {"text": "That is what it says."}]}
    task = Task.model_validate_json(json.dumps({"about": line, "kind": "harmless", "turns": [turn]}))
    robot, person = Robot(task, workspace), Answering(says)
    log = MemoryLog()
    setting = SessionOptions(workspace, robot, person=person, log=log, environ={"FOREGATE_HOME": str(home)})
    opened = await open_session(setting)
    try:
        outcome = await run(opened.session, say)
        messages = list(opened.session.state.messages)
        events = [str(event.body) for event in await log.read(opened.name)]
    finally:
        await opened.close()
    asked = person.asked + ["question"] * (outcome.status == "needs_input")
    last = find_answer(messages, "run_command" if plain else "run_shell")
    refused = get_object(last, "foregate") if "foregate" in last else {}
    return Ran(
        asked=tuple(asked),
        agreed=person.agreed,
        code=str(refused.get("code", "")) or ("" if last else outcome.status),
        exit_code=last.get("exit_code"),
        output=str(last.get("output", "")),
        extra=robot.asked - 2,
        said="\n".join([str(refused.get("message", "")), *(message.text for message in messages), *events]),
    )


def find_answer(messages: list[Any], tool: str) -> dict[str, Any]:
    """Return what the model was told of its last call of the tool, {} where it was told nothing."""
    wanted = {call.id for message in messages for call in message.calls if call.name == tool}
    told = [message.text for message in messages if message.role == "tool" and message.call in wanted]
    return dict(json.loads(told[-1])) if told else {}

"""Everyday sessions: a request, and how two models go about it, by the built-in tools and by the shell alone."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confining.projects import make_project, run_script
from confining.session import Answering
from pydantic import BaseModel, ConfigDict

from foregate.agent.loop.runner import run
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import layer_policy
from foregate.policy.source.strict_yaml import parse_yaml
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import as_object, get_list, get_object, get_text
from foregate.telemetry.log.memory_log import MemoryLog
from guarding.robot import Robot
from guarding.task import TASKS, Task

HABITS = ("own", "shell")


class Everyday(BaseModel):
    """A session; see `tasks/sessions.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    say: str
    prepare: str = ""
    says: str = ""
    readonly: bool = False
    own: tuple[dict[str, dict[str, Any]], ...]
    shell: tuple[str, ...]
    after: str = "true"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a session cost: the requests of a loop that runs everything, ours, questions to the person, and codes."""

    name: str
    readonly: bool
    bare: int
    asked: int
    prompts: tuple[str, ...]
    done: bool


def sessions() -> Mapping[str, Everyday]:
    """Return all sessions by name; raise PolicyError or pydantic's ValidationError naming what does not fit."""
    data, _ = parse_yaml((TASKS / "sessions.yaml").read_text("utf-8"), "tasks/sessions.yaml")
    return {name: Everyday.model_validate_json(json.dumps(body)) for name, body in data.items()}


def play_session(name: str, habit: str) -> Cost:
    """Play a session once in a new project, with a person who says yes to everything."""
    return asyncio.run(_play(name, sessions()[name], habit))


def play_two_days(name: str, habit: str, mode: str) -> tuple[Cost, Cost]:
    """Play a session, and on the next day once more in the project as it was before, with a person who permits from
    now on whatever is offered. `mode` is that of approvals."""
    return asyncio.run(_play_two_days(name, sessions()[name], habit, mode))


class Permitting(Answering):
    """A Person who permits each call from now on where that is offered, exactly as it is, and says yes where not."""

    async def answer(self, need: Need) -> Reply:
        reply = await super().answer(need)
        calls = [as_object(call) for call in get_list(need.request, "calls")]
        permitted = {get_text(one, "call"): "project" for one in calls if get_object(one, "permits")}
        return Reply(reply.choice, calls=permitted) if reply.choice == "yes" else reply


async def _play(name: str, what: Everyday, habit: str) -> Cost:
    with tempfile.TemporaryDirectory() as root:
        return await _play_once(name, what, habit, Path(root), Answering("yes"), log=MemoryLog())


async def _play_two_days(name: str, what: Everyday, habit: str, mode: str) -> tuple[Cost, Cost]:
    policy = layer_policy(Layer("mode", "mode", {"approval": {"mode": mode}}, {})).policy
    with tempfile.TemporaryDirectory() as root:
        days = [await _play_once(name, what, habit, Path(root), Permitting("yes"), policy=policy) for _ in range(2)]
    return days[0], days[1]


async def _play_once(name: str, what: Everyday, habit: str, root: Path, person: Answering, **options: Any) -> Cost:
    """Play a session in a new project beneath `root`; `options` are those of the session."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    steps: list[dict[str, Any]] = [{"calls": [step]} for step in what.own]
    if habit == "shell":
        steps = [{"calls": [{"run_shell": {"command": line}}]} for line in what.shell]
    steps[0]["text"] = what.says
    turn = {"say": what.say, "steps": [*steps, {"text": "That is it."}]}
    task = Task.model_validate_json(json.dumps({"about": name, "kind": "harmless", "turns": [turn]}))
    workspace = root / "workspace"
    shutil.rmtree(workspace, ignore_errors=True)
    make_project("python", workspace, "none", os.environ)
    run_script(what.prepare, workspace, os.environ)
    robot = Robot(task, workspace)
    environ = {"FOREGATE_HOME": str(root / "home")}
    opened = await open_session(SessionOptions(workspace, robot, person=person, environ=environ, **options))
    try:
        outcome = await run(opened.session, what.say)
    finally:
        await opened.close()
    succeeded = outcome.status == "completed" and is_true(what.after, workspace)
    held = ["question"] * (outcome.status == "needs_input")
    return Cost(name, what.readonly, len(steps) + 1, robot.asked, (*person.asked, *held), succeeded)


def is_true(line: str, folder: Path) -> bool:
    """Whether a line of the shell succeeds in a folder."""
    return subprocess.run(["/bin/sh", "-c", line], cwd=folder, capture_output=True, check=False).returncode == 0

"""Everyday sessions: a request, and how two models go about it, by the built-in tools and by the shell alone."""

from __future__ import annotations

import asyncio
import json
import os
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
from foregate.policy.source.strict_yaml import parse_yaml
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


async def _play(name: str, what: Everyday, habit: str) -> Cost:
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    steps: list[dict[str, Any]] = [{"calls": [step]} for step in what.own]
    if habit == "shell":
        steps = [{"calls": [{"run_shell": {"command": line}}]} for line in what.shell]
    steps[0]["text"] = what.says
    turn = {"say": what.say, "steps": [*steps, {"text": "That is it."}]}
    task = Task.model_validate_json(json.dumps({"about": name, "kind": "harmless", "turns": [turn]}))
    with tempfile.TemporaryDirectory() as root:
        workspace = Path(root, "workspace")
        make_project("python", workspace, "none", os.environ)
        run_script(what.prepare, workspace, os.environ)
        robot, person = Robot(task, workspace), Answering("yes")
        setting = SessionOptions(
            workspace, robot, person=person, log=MemoryLog(), environ={"FOREGATE_HOME": str(Path(root, "home"))}
        )
        opened = await open_session(setting)
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

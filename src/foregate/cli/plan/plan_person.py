"""The person who confirms a plan: y, n, details, edit or step. Enter alone is no answer."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from foregate.agent.planning.confirm.control import unknown
from foregate.agent.planning.confirm.outlook import Outlook
from foregate.cli.plan.plan_sheet import FAILURE_KEYS, KEYS, cut, failure_rows, plan_sheet
from foregate.cli.terminal.colours import CARE
from foregate.cli.terminal.screen import Screen
from foregate.cli.terminal.terminal import Terminal
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas import codec
from foregate.schemas.errors import UsageError
from foregate.schemas.task_plan import FailureChoice, TaskPlan

Choice = Literal["yes", "no", "edit", "step"]


class PlanPerson:
    """Shows the sheet of a plan and takes an answer that cannot be given by accident."""

    def __init__(self, screen: Screen, terminal: Terminal) -> None:
        self.screen, self.terminal = screen, terminal

    async def confirm(self, state: PlanState, looked: Outlook) -> Choice:
        """Show the sheet and return the choice; Ctrl-D is no. A sheet that cut something takes no yes before d."""
        width, unseen = self.screen.console.width, cut(looked)
        self.screen.idle()
        self.screen.rows(plan_sheet(state, looked, width=width))
        self.screen.say(f"  {KEYS}", "dim")
        while True:
            typed = await self.terminal.answer("run this plan? ")
            match (typed or "n" if typed is None else typed).strip().lower():
                case "y" | "yes" | "s" | "step" if unseen:
                    self.screen.say("not everything has been shown yet: d shows it, then y counts", CARE)
                case "y" | "yes":
                    return "yes"
                case "s" | "step":
                    return "step"
                case "n" | "no":
                    return "no"
                case "e" | "edit":
                    return "edit"
                case "d" | "details":
                    self.screen.rows(plan_sheet(state, looked, details=True, width=width))
                    unseen = False
                case _:
                    self.screen.say(KEYS, CARE)

    async def after_failure(self, step: StepState) -> FailureChoice | None:
        """Show what failed and return how to go on; Ctrl-D is not now. Enter alone is no answer."""
        self.screen.idle()
        self.screen.rows(failure_rows(step, self.screen.console.width))
        self.screen.say(f"  {FAILURE_KEYS}", "dim")
        while (typed := await self.terminal.answer("how to go on? ")) is not None:
            match typed.strip().lower():
                case "g" | "go on":
                    return "go_on"
                case "r" | "retry" if lost := unknown(step):
                    self.screen.row(f"nobody knows whether {lost} took effect: stop, say what came of it, retry", CARE)
                case "r" | "retry":
                    return "retry"
                case "b" | "roll back":
                    return "roll_back"
                case "s" | "stop":
                    return "stop"
                case _:
                    self.screen.say(FAILURE_KEYS, CARE)
        return None

    async def asks(self, question: str) -> bool:
        """Return whether the person says yes; Enter alone is no answer, Ctrl-D is no."""
        self.screen.idle()
        while True:
            typed = await self.terminal.answer(f"{question} ")
            match ("n" if typed is None else typed).strip().lower():
                case "y" | "yes":
                    return True
                case "n" | "no":
                    return False
            self.screen.say("y or n", CARE)


def written(plan: TaskPlan) -> str:
    """Return a plan as a file holds it."""
    return json.dumps(codec.dump(plan), indent=2, ensure_ascii=False) + "\n"


def saved(plan: TaskPlan, file: Path) -> None:
    """Write a plan to a new file; raise UsageError where there is one already, or none can be made."""
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(written(plan))
    except OSError as error:
        raise UsageError(f"`{file}` cannot be written ({error.strerror}); name a new file") from None


def edited(plan: TaskPlan) -> str:
    """Return the plan's text as the person left it in $VISUAL or $EDITOR; raise UsageError where neither works."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise UsageError("set EDITOR to the program to edit the plan with")
    with tempfile.TemporaryDirectory(prefix="foregate-plan-") as folder:
        file = Path(folder) / "plan.json"
        file.write_text(written(plan), "utf-8")
        try:
            done = subprocess.run([*shlex.split(editor), str(file)], check=False)  # noqa: S603 - the person's own editor
        except (OSError, ValueError) as error:
            raise UsageError(f"the editor `{editor}` cannot be run ({error}); set EDITOR to another") from None
        if done.returncode:
            raise UsageError(f"the editor ended with exit code {done.returncode}, so the plan stays as it is")
        try:
            return file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the edited plan cannot be read ({error}); it stays as it is") from None

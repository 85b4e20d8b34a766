"""A plan as a file: read, written, and edited by the person."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from foregate.cli.terminal.visible import make_visible
from foregate.schemas import strict_json
from foregate.schemas.errors import UsageError
from foregate.schemas.task_plan import TaskPlan

LARGEST = 4_000_000
"""Bytes of a plan file at most."""


def plan_text(file: Path) -> str:
    """Return the text of a plan file; raise UsageError where it cannot be one."""
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"`{make_visible(str(file))}` cannot be read ({error.strerror}); name a plan file") from None
    if len(data) > LARGEST:
        raise UsageError(f"`{make_visible(str(file))}` has more than {LARGEST} bytes, which is no plan")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"`{make_visible(str(file))}` is no UTF-8 text; name a plan file") from None


def format_plan_file(plan: TaskPlan) -> str:
    """Return a plan as a file holds it."""
    return json.dumps(strict_json.dump(plan), indent=2, ensure_ascii=False) + "\n"


def save_plan(plan: TaskPlan, file: Path) -> None:
    """Write a plan to a new file; raise UsageError where there is one already, or none can be made."""
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(format_plan_file(plan))
    except OSError as error:
        raise UsageError(f"`{file}` cannot be written ({error.strerror}); name a new file") from None


def edit_plan(plan: TaskPlan) -> str:
    """Return the plan's text as the person left it in $VISUAL or $EDITOR; raise UsageError where neither works."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise UsageError("set EDITOR to the program to edit the plan with")
    with tempfile.TemporaryDirectory(prefix="foregate-plan-") as folder:
        file = Path(folder) / "plan.json"
        file.write_text(format_plan_file(plan), "utf-8")
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

"""The plans of the log, and which one a name means."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Collection
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from foregate.assembly.home import open_home_log
from foregate.assembly.open import read_beginning
from foregate.evidence.state.lineage import join_events
from foregate.evidence.state.plan import RESULTS, STANDING, PlanEntry, read_plans
from foregate.schemas import strict_json
from foregate.schemas.errors import UsageError
from foregate.schemas.session_link import find_root
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import TaskPlan
from foregate.views.terminal.exit_codes import run_async
from foregate.views.terminal.layout import make_visible

if TYPE_CHECKING:
    from foregate.telemetry.log.sqlite_log import SqliteLog


def list_log_plans(log: SqliteLog) -> list[PlanEntry]:
    """Return where every plan of the log stands, without the outcomes of its calls, newest first."""
    known = set(run_async(log.sessions()))
    families = groupby(log.read_all_sessions(STANDING), key=lambda event: _find_first(event.session, known))
    found = [entry for _, events in families for entry in read_plans(events)]
    return sorted(found, key=lambda entry: (entry.state.proposed, entry.session, entry.number), reverse=True)


def find_plan(wanted: str) -> PlanEntry:
    """Return a plan with all outcomes; raise UsageError where there is no such, or more than one.

    A plan is named by its session, or a beginning only one has, for the newest plan there; by session and number as in
    `20261121-064512-ab3f/1` for an earlier one; by its own id; or as `last`.
    """
    with open_home_log() as log:
        entry = choose_plan(wanted, list_log_plans(log))
        names = run_async(log.sessions())
        known, first = set(names), _find_first(entry.session, set(names))
        joined = [name for name in reversed(names) if _find_first(name, known) == first]
        events = (event for name in joined for event in log.events(name, kinds=RESULTS))
        return read_plans(join_events(events, joined[-1]))[entry.number - 1]


def _find_first(session: str, known: Collection[str]) -> str:
    """Return the session whose plans another one continues; a delegated task has plans of its own."""
    return session if "." in session else find_root(session, known)


def newest_plan(wanted: str) -> PlanEntry:
    """Return a plan that can be resumed; raise UsageError for one that another has taken the place of."""
    entry = find_plan(wanted)
    if not entry.latest:
        raise UsageError(
            f"a later plan of the session has taken the place of `{entry.name}`; "
            f"`foregate execute {entry.name}` runs it anew"
        )
    return entry


def choose_plan(wanted: str, plans: list[PlanEntry]) -> PlanEntry:
    """Return the plan a name means, of plans that are listed newest first."""
    if wanted == "last" and plans:
        return plans[0]
    if of_id := [entry for entry in plans if entry.state.current_plan.id == wanted]:
        return of_id[0]
    session, _, number = wanted.partition("/")
    numbered = [entry for entry in plans if (str(entry.number) == number if number else entry.latest)]
    newest = plans[0].session if plans and session == "last" else session
    fitting = [entry for entry in numbered if entry.session == newest]
    fitting = fitting or [entry for entry in numbered if session and entry.session.startswith(session)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UsageError(f"{len(fitting)} plans begin with `{wanted}`; give more of the name")
    raise UsageError(f"there is no plan file and no plan `{wanted}`; `foregate plans list` names those there are")


def read_folder(session: str) -> str:
    """Return the folder a session of the log works in."""
    with open_home_log() as log:
        return run_async(read_beginning(log, session)).workspace


def summarise_plan(entry: PlanEntry) -> dict[str, Json]:
    """Return what a list says of a plan."""
    plan = entry.state.current_plan
    return {
        "name": entry.name,
        "session": entry.session,
        "number": entry.number,
        "latest": entry.latest,
        "id": plan.id,
        "digest": entry.state.digest,
        "proposed": entry.state.proposed,
        "goal": plan.goal,
        "state": entry.standing,
        "tasks": len(plan.tasks),
        "done": entry.count_tasks("done"),
        "failed": entry.count_tasks("failed"),
    }


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
            raise UsageError(f"the editor ended with exit code {done.returncode}, so the plan is unchanged")
        try:
            return file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the edited plan cannot be read ({error}); it is unchanged") from None

"""Taking a plan at a terminal from its proposal through confirmation to its end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, nullcontext, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.planning.answering import PlanReport
from foregate.agent.planning.configuration import Configuration
from foregate.agent.planning.control import get_plan_state
from foregate.agent.planning.controller import PlanController
from foregate.agent.planning.other_values import describe_new_values, read_settings, with_values
from foregate.agent.planning.planner import Planning
from foregate.agent.planning.reader import Reading, read_plan
from foregate.agent.planning.validator import Validation, validate_reading
from foregate.evidence.state.plan import PlanState
from foregate.schemas import strict_json
from foregate.schemas.errors import UsageError
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import TaskPlan
from foregate.views.terminal.exit_codes import STATUS, USAGE
from foregate.views.terminal.layout import CARE, make_visible
from foregate.views.terminal.plan_sheet import PlanPerson, PlanProgressRows, format_defects, format_report
from foregate.views.terminal.scripting import to_json_line
from foregate.views.terminal.terminal import interruptible, pause

if TYPE_CHECKING:
    from foregate.assembly.open import OpenSession
    from foregate.assembly.setting import SessionOptions
    from foregate.views.terminal.screen import Screen
    from foregate.views.terminal.terminal import Terminal


T = TypeVar("T")
Course = tuple[PlanReport, bool]
"""What became of a plan, and whether it ran at all."""


class PlanWork(Struct):
    """One plan at one terminal. `quiet` prints no progress, for `--json`."""

    opened: OpenSession
    screen: Screen
    terminal: Terminal
    configuration: Configuration
    quiet: bool = False

    @property
    def driver(self) -> PlanController:
        """What takes the session's task through its plan; the person at this terminal answers."""
        driver = self.opened.session.plan_driver
        assert isinstance(driver, PlanController)
        return driver

    @property
    def state(self) -> PlanState:
        """Where the session's plan stands, once it is followed."""
        return self.driver.state

    async def follow_plan(self) -> None:
        """Follow the session's plan, and show a line for each task that comes to something."""
        await self.driver.follow()
        if not self.quiet:
            session, formatting = self.opened.session, self.configuration.formatting
            session.subscribe(PlanProgressRows(self.screen, formatting, await get_plan_state(session)).show_event)
            session.subscribe(self.screen.show_results_answer)
            self.driver.on_further = self.show_report

    def show_report(self, report: PlanReport) -> None:
        """Show how a plan ended or paused."""
        self.screen.rows(format_report(report, self.screen.console.width))

    def check_plan(self, plan: str | TaskPlan, *, settings: Sequence[str] = (), source: str = "") -> Validation:
        """Return a plan, or the one a text holds, with everything that is wrong with it.

        `settings` give it other values, see `read_settings`; `source` says where it was. Raises UsageError where a text
        holds no plan, and for settings that name nothing of it.
        """
        session = self.opened.session
        reading = Reading(plan) if isinstance(plan, TaskPlan) else read_plan(plan, catalogue=session.catalogue)
        found = reading.plan
        if found is None:
            why = "; ".join(f"{defect.problem}; {defect.remedy}" for defect in reading.defects[:3])
            raise UsageError(f"this holds no plan ({why or 'nothing that could be read'})")
        if settings:
            values = read_settings(found, settings, session.catalogue)
            notes = (*reading.notes, *describe_new_values(found, values, session.catalogue))
            found, reading = with_values(found, values, session.catalogue, source=source), replace(reading, notes=notes)
        return validate_reading(reading, found, session.catalogue, session.workspace, self.configuration)

    def show_findings(self, found: Planning | Validation, *, proposed: bool = False) -> None:
        """Show everything that was found about a plan; the notes of one that is `proposed` are shown with that."""
        width = self.screen.console.width
        for note in () if proposed and not self.quiet else found.notes:
            self.screen.row(f"  note: {note}", "dim")
        self.screen.rows(format_defects(found.warnings, "warning", width))
        self.screen.rows(format_defects(found.defects, "defect", width))

    async def take_through(self, *, yes: bool = False, step: bool = False) -> Course:
        """Have the session's plan confirmed, by the person or with `yes` beforehand, and run it."""
        return await self.drive(self.driver.take_through(unseen=yes, step=step))

    async def drive(self, steps: Coroutine[None, None, T]) -> T:
        """Take the steps. The first Ctrl-C pauses a plan that runs after the call in hand, the second cancels it."""
        task = asyncio.ensure_future(steps)
        # What a tool prints is no report.
        aside = redirect_stdout(sys.stderr) if self.quiet else nullcontext()
        try:
            with aside, interruptible(task, lambda: pause(self.driver, self.screen)):
                return await task
        finally:
            self.screen.idle()

    def print_report(self, report: PlanReport, as_json: bool) -> None:
        """Print how the plan ended or paused."""
        if as_json:
            print(to_json_line(dump_report(report)))  # noqa: T201
            return
        name = report.session
        if report.further is not None:
            self.screen.say(f"a further plan waits for a yes: foregate execute {name} asks and runs it", CARE)
            return
        self.show_report(report)
        if report.is_paused:
            self.screen.say(f"foregate plans resume {name} goes on", "dim")
        elif report.status != "completed":
            retry, back = f"foregate plans retry {name} tries again", f"foregate plans rollback {name} takes back"
            self.screen.say(f"{retry}; {back}", "dim")


def dump_report(report: PlanReport) -> Json:
    """Return a report for scripts."""
    return {
        "status": report.status,
        "reason": report.reason,
        "session": report.session,
        "dry_run": report.dry_run,
        "answer": report.answer,
        "unanswered": report.unanswered,
        "further": None if report.further is None else _dump_plan(report.further),
        "plan": _dump_plan(report.plan),
        "duration_ms": report.duration_ms,
        "tasks": [strict_json.dump(task) | {"success": task.success, "status": task.status} for task in report.tasks],
    }


def _dump_plan(plan: TaskPlan) -> Json:
    return {"id": plan.id, "goal": plan.goal, "digest": plan.digest}


def dump_findings(plan: TaskPlan | None, found: Planning | Validation) -> dict[str, Json]:
    """Return a plan with everything that was found about it, for scripts."""
    return {
        "plan": strict_json.dump(plan) if plan is not None else None,
        "defects": [strict_json.dump(defect) for defect in found.defects],
        "warnings": [strict_json.dump(warning) for warning in found.warnings],
        "notes": list(found.notes),
    }


@asynccontextmanager
async def open_plan_work(
    setting: SessionOptions, *, quiet: bool = False, as_json: bool = False
) -> AsyncIterator[PlanWork]:
    """Open the session of a setting, and yield the work on its plan."""
    from foregate.agent.loop.undo import preview_calls
    from foregate.assembly.open import open_session
    from foregate.views.terminal.layout import build_console
    from foregate.views.terminal.person import PersonAtTerminal
    from foregate.views.terminal.screen import Screen
    from foregate.views.terminal.terminal import Terminal
    from foregate.views.terminal.waiting import build_waiting_line

    screen = Screen(build_console(stderr=as_json), None if as_json else build_waiting_line(setting))
    terminal = Terminal()
    person = PersonAtTerminal(screen, terminal) if terminal.interactive else None
    setting.person, setting.on_retry = person, None if as_json else screen.tell_retry
    try:
        screen.busy("model")
        opened = await open_session(setting)
    finally:
        screen.idle()
    if person is not None:
        person.foresee = partial(preview_calls, opened.session)
        person.plans = PlanPerson(opened.session, screen, terminal).answer
    for note in () if quiet or as_json else opened.notes:
        screen.row(note, CARE)
    try:
        yield PlanWork(opened, screen, terminal, opened.configuration, quiet or as_json)
    finally:
        screen.idle()
        await opened.close()


async def go_on(setting: SessionOptions, go: Callable[[PlanWork], Awaitable[Course | None]], as_json: bool) -> int:
    """Open the session, let `go` work on its plan, report, and return the exit code; None where nothing was to do."""
    async with open_plan_work(setting, as_json=as_json) as work:
        await work.follow_plan()
        course = await go(work)
        if course is None:
            return USAGE
        report, ran = course
        if ran or as_json:
            work.print_report(report, as_json)
        elif report.status == "blocked":
            why = f"foregate: {report.reason}; run this at a terminal, or confirm with --yes"
            print(make_visible(why), file=sys.stderr)  # noqa: T201
        else:
            work.screen.say("nothing ran", CARE)
        return STATUS[report.status]

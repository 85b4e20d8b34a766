"""Taking a plan at a terminal from its proposal through confirmation to its end."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from foregate.agent.planning.ask.planner import Planning
from foregate.agent.planning.ask.proposal import propose
from foregate.agent.planning.confirm.confirming import needs_yes
from foregate.agent.planning.confirm.control import confirm, decline, follow, leave, look_ahead, standing
from foregate.agent.planning.format.configuration import Configuration, Role
from foregate.agent.planning.format.other_values import told, values_of, with_values
from foregate.agent.planning.format.reader import read
from foregate.agent.planning.format.reading import Reading
from foregate.agent.planning.format.validator import Validation, validate
from foregate.agent.planning.run.plan_report import PlanReport
from foregate.agent.planning.run.run_plan import PlanRun
from foregate.cli.plan.plan_person import PlanPerson, edited
from foregate.cli.plan.plan_progress import Progress
from foregate.cli.plan.plan_sheet import defect_rows, report_rows, task_rows
from foregate.cli.terminal.colours import BAD, CARE
from foregate.cli.terminal.scripting import one_line
from foregate.cli.terminal.visible import visible
from foregate.evidence.state.plan import PlanState
from foregate.schemas import codec
from foregate.schemas.errors import UsageError
from foregate.schemas.protocols import Model
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import PlanTask, TaskPlan

if TYPE_CHECKING:
    from foregate.assembly.open import Opened
    from foregate.assembly.setting import Setting
    from foregate.cli.terminal.screen import Screen
    from foregate.cli.terminal.terminal import Terminal

LARGEST = 4_000_000
"""Bytes of a plan file at most."""


@dataclass
class PlanWork:
    """One plan at one terminal. `quiet` prints no progress, for `--json`."""

    opened: Opened
    screen: Screen
    terminal: Terminal
    configuration: Configuration
    quiet: bool = False
    state: PlanState = field(default_factory=PlanState)

    async def begin(self) -> None:
        """Follow the session's plan, and show a line for each task that comes to something."""
        self.state = await follow(self.opened.session)
        if not self.quiet:
            progress = Progress(self.screen, self.configuration.formatting, await standing(self.opened.session))
            self.opened.session.subscribe(progress.hear)
            self.opened.session.subscribe(self.screen.answered)

    async def close(self) -> None:
        """Close the session."""
        self.screen.idle()
        await self.opened.close()

    def checked(
        self, plan: str | TaskPlan, query: str = "", *, settings: Sequence[str] = (), source: str = ""
    ) -> Validation:
        """Return a plan, or the one a text holds, with everything that is wrong with it.

        `settings` give it other values, see `values_of`; `source` says where it was. Raises UsageError where a text
        holds no plan, and for settings that name nothing of it.
        """
        session = self.opened.session
        reading = Reading(plan) if isinstance(plan, TaskPlan) else read(plan, query=query, catalogue=session.catalogue)
        if reading.plan is None:
            why = "; ".join(f"{defect.problem}; {defect.remedy}" for defect in reading.defects[:3])
            raise UsageError(f"this holds no plan ({why or 'nothing that could be read'})")
        wanted, notes = reading.plan, reading.notes
        if settings:
            values = values_of(wanted, settings, session.catalogue)
            notes = (*notes, *told(wanted, values, session.catalogue))
            wanted = with_values(wanted, values, session.catalogue, source=source)
        found = validate(wanted, session.catalogue, session.workspace, self.configuration)
        return Validation(found.plan, (*reading.defects, *found.defects), found.warnings, (*notes, *found.notes))

    def told(self, found: Planning | Validation) -> None:
        """Show everything that was found about a plan."""
        width = self.screen.console.width
        for note in found.notes:
            self.screen.row(f"  note: {note}", "dim")
        self.screen.rows(defect_rows(found.warnings, "warning", width))
        self.screen.rows(defect_rows(found.defects, "defect", width))

    async def confirmed(self, *, yes: bool, step: bool) -> PlanRun | None:
        """Return the run of the session's plan once it is confirmed, None where the person said no.

        Raises UsageError where a person would have to confirm and there is none.
        """
        session = self.opened.session
        while True:
            looked = await look_ahead(session, self.state, self.configuration.execution.target_uses)
            if yes or not needs_yes(self.configuration, self.state, looked):
                await confirm(session, self.state, looked, self.state.digest, seen=False)
                return self.run_of(step=step)
            if not self.terminal.interactive:
                await decline(session)
                raise UsageError("nobody is here to confirm the plan; run this at a terminal, or confirm with --yes")
            choice = await PlanPerson(self.screen, self.terminal).confirm(self.state, looked)
            if choice == "no":
                await decline(session)
                return None
            if choice != "edit":
                await confirm(session, self.state, looked, self.state.digest, seen=True)
                return self.run_of(step=step or choice == "step")
            await self.edit()

    async def edit(self) -> None:
        """Let the person change the plan; one that is sound then is proposed in its place."""
        try:
            found = self.checked(await asyncio.to_thread(edited, self.state.known), self.state.known.query)
        except UsageError as error:
            self.screen.row(f"foregate: {error}", BAD)
            return
        self.told(found)
        if found.sound:
            number = self.state.number
            await propose(self.opened.session, found.plan, actor="person", notes=found.notes, number=number)

    def run_of(self, *, step: bool = False) -> PlanRun:
        """Return the run of the session's plan; with `step` the person is asked before each task."""
        before = self.before if step else None
        on_failure = PlanPerson(self.screen, self.terminal).after_failure if self.terminal.interactive else None
        return PlanRun(
            self.opened.session,
            self.state,
            self.configuration,
            self.model("execution"),
            before,
            on_failure,
            self.model("planning"),
        )

    async def before(self, task: PlanTask) -> bool:
        """Show a task and ask whether it may run."""
        looked = await look_ahead(self.opened.session, self.state, self.configuration.execution.target_uses)
        self.screen.idle()
        self.screen.rows(task_rows(task, looked.of(task.id), width=self.screen.console.width))
        return await PlanPerson(self.screen, self.terminal).asks(f"run task {task.id}?")

    def model(self, role: Role) -> Model:
        """Return the model of a role, the session's own where the configuration names none."""
        return self.opened.roles.model(role)

    async def see_through(self, run: PlanRun, *, as_json: bool = False) -> PlanReport:
        """Run the plan, and each further one after another yes; without a person a further plan is left in the log."""
        report = await self.carry_on(run)
        while report.further is not None:
            if not as_json:
                self.screen.rows(report_rows(report, self.screen.console.width))
            if not self.terminal.interactive:
                await leave(self.opened.session, report)
                return report
            again = await self.confirmed(yes=False, step=run.before is not None)
            if again is None:
                return replace(report, status="cancelled", reason="the further plan was not confirmed", further=None)
            report = await self.carry_on(again)
        return report

    async def carry_on(self, run: PlanRun) -> PlanReport:
        """Run the plan. The first Ctrl-C pauses it after the call in hand, the second cancels it."""
        task = asyncio.ensure_future(run.run())
        try:
            aside = redirect_stdout(sys.stderr) if self.quiet else nullcontext()  # what a tool prints is no report
            with aside, pausable(task, run, self.screen):
                return await task
        finally:
            self.screen.idle()

    def report(self, report: PlanReport, as_json: bool) -> None:
        """Print how the plan ended or paused."""
        if as_json:
            print(one_line(report_json(report)))  # noqa: T201
            return
        name = report.session
        if report.further is None:
            self.screen.rows(report_rows(report, self.screen.console.width))
        if report.further is not None:
            self.screen.say(f"a further plan waits for a yes: foregate execute {name} asks and runs it", CARE)
        elif report.paused:
            self.screen.say(f"foregate plans resume {name} goes on", "dim")
        elif report.status != "completed":
            self.screen.say(
                f"foregate plans retry {name} tries again; foregate plans rollback {name} takes back", "dim"
            )


def report_json(report: PlanReport) -> Json:
    """Return a report for scripts."""
    return {
        "status": report.status,
        "reason": report.reason,
        "session": report.session,
        "dry_run": report.dry_run,
        "answer": report.answer,
        "unanswered": report.unanswered,
        "further": None if report.further is None else plan_json(report.further),
        "plan": plan_json(report.plan),
        "duration_ms": report.duration_ms,
        "tasks": [codec.dump(task) | {"success": task.success, "status": task.status} for task in report.tasks],
    }


def plan_json(plan: TaskPlan) -> Json:
    """Return which plan it is, for scripts."""
    return {"id": plan.id, "goal": plan.goal, "digest": plan.digest}


def found_json(plan: TaskPlan | None, found: Planning | Validation) -> dict[str, Json]:
    """Return a plan with everything that was found about it, for scripts."""
    return {
        "plan": codec.dump(plan) if plan is not None else None,
        "defects": [codec.dump(defect) for defect in found.defects],
        "warnings": [codec.dump(warning) for warning in found.warnings],
        "notes": list(found.notes),
    }


def plan_text(file: Path) -> str:
    """Return the text of a plan file; raise UsageError where it cannot be one."""
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"`{visible(str(file))}` cannot be read ({error.strerror}); name a plan file") from None
    if len(data) > LARGEST:
        raise UsageError(f"`{visible(str(file))}` has more than {LARGEST} bytes, which is no plan")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"`{visible(str(file))}` is no UTF-8 text; name a plan file") from None


async def work_of(setting: Setting, *, quiet: bool = False, as_json: bool = False) -> PlanWork:
    """Open the session of a setting and return the work on its plan."""
    from foregate.agent.effects.preview import prospects
    from foregate.assembly.open import open_session
    from foregate.cli.terminal.colours import console
    from foregate.cli.terminal.person import PersonAtTerminal
    from foregate.cli.terminal.screen import Screen
    from foregate.cli.terminal.terminal import Terminal

    screen = Screen(console(stderr=as_json))
    terminal = Terminal()
    person = PersonAtTerminal(screen, terminal) if terminal.interactive else None
    setting.person = person
    opened = await open_session(setting)
    if person is not None:
        person.foresee = partial(prospects, opened.session)
    for note in () if quiet or as_json else opened.notes:
        screen.row(note, CARE)
    return PlanWork(opened, screen, terminal, opened.configuration, quiet or as_json)


@contextmanager
def pausable(task: asyncio.Task[PlanReport], run: PlanRun, screen: Screen) -> Iterator[None]:
    """Let the first Ctrl-C pause the plan and the second cancel it."""
    loop, asked = asyncio.get_running_loop(), 0

    def interrupt() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            run.pause()
            screen.idle()
            screen.say("pausing after the call in hand; Ctrl-C again cancels", CARE)
        elif asked == 2:
            task.cancel()

    before = signal.getsignal(signal.SIGINT)
    try:
        loop.add_signal_handler(signal.SIGINT, interrupt)
    except (NotImplementedError, RuntimeError, ValueError):
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)

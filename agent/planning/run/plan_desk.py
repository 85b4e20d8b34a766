"""The desk that takes a task of a session through a plan: made, confirmed by the person, run, answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.planning.ask.planner import Planning, assess_plan, collect_prior_work, propose_plan, record_proposal
from foregate.agent.planning.format.configuration import Configuration, Role
from foregate.agent.planning.format.reader import read_plan
from foregate.agent.planning.run.confirming import (
    ask_and_record,
    build_failure_need,
    build_plan_need,
    build_task_need,
    failure_choices,
    should_confirm,
)
from foregate.agent.planning.run.control import (
    end_declined,
    end_unconfirmed,
    get_plan_state,
    preview_open_tasks,
    record_confirmation,
)
from foregate.agent.planning.run.plan_report import PlanReport, build_report
from foregate.agent.planning.run.run_plan import PlanRun
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas.event_body import Report
from foregate.schemas.protocols import Model
from foregate.schemas.task_plan import FailureChoice, PlanTask


class Course(Struct, frozen=True):
    """What became of a plan: how the session's task ended or paused, the report, and whether the plan `ran` at all."""

    outcome: RunResult
    report: PlanReport
    ran: bool = True


@dataclass
class PlanController:
    """Takes the step the session's log asks for, so that another process goes on where one ended.

    `model` gives the model of a role, `planning` or `execution`. Whoever confirms is the session's person, in a chat,
    at the command line and in a program alike. `on_further` hears the report of a run that a further plan follows.
    """

    session: Session
    configuration: Configuration
    model: Callable[[Role], Model]
    on_further: Callable[[PlanReport], None] | None = None
    _run: PlanRun | None = field(default=None, init=False)

    def pause(self) -> bool:
        """Let the plan that runs pause after the call in hand; see Desk."""
        if self._run is None or self._run.pausing:
            return False
        self._run.pause()
        return True

    async def drive_task(self) -> RunResult:
        """Take the open task through its plan; see Desk."""
        async with follow_session(self.session) as state:
            while not state.running:
                task = self.session.state.task
                assert task is not None
                ended = await (self.confirm(state) if task.proposed_plan else self.make())
                if ended is not None:
                    return ended
            return (await self.run(state)).outcome

    async def take_through(self, state: PlanState, *, unseen: bool = False, step: bool = False) -> Course:
        """Have the plan of `state` confirmed and run it; see `confirm`. Cancelling ends the task."""
        try:
            ended = await self.confirm(state, unseen=unseen, step=step)
        except asyncio.CancelledError:
            if self.session.state.task is None:
                raise
            ended = await self.session.end_task("cancelled", blocker="the person cancelled")
        if ended is None:
            return await self.run(state)
        why = ended.report.blocker or ended.text
        return Course(ended, build_report(state, self.configuration.formatting, ended.status, why), ran=False)

    async def make(self) -> RunResult | None:
        """Have a plan made for what the person said in this task; None once one is proposed."""
        session = self.session
        task = session.state.task
        assert task is not None
        before = await collect_prior_work(session, self.configuration)
        query = task.messages[-1].text  # after a question of the planner this is another query
        planning = await propose_plan(session, query, self.model("planning"), self.configuration, before)
        if planning.plan is not None:
            return None
        return await session.pause(RunResult("needs_input", planning.question))

    async def confirm(
        self, state: PlanState, last: PlanReport | None = None, *, unseen: bool = False, step: bool = False
    ) -> RunResult | None:
        """Have the proposed plan confirmed; None once it is, else how the task ended or paused.

        `unseen` says that somebody confirmed it beforehand without seeing the sheet, which is leave for nothing. With
        `step` the person is asked before each task, whatever they answer here. `last` is the report of the plan before.
        """
        session, execution = self.session, self.configuration.execution
        edited = Planning(None)
        while True:
            looked = await preview_open_tasks(session, state, execution.target_uses)
            if unseen or not should_confirm(self.configuration, state, looked):
                await record_confirmation(session, state, looked, state.digest, seen=False, step=step)
                return None
            if session.person is None:
                return await end_unconfirmed(session, last)
            most = self.configuration.planning.max_plans
            need = build_plan_need(state, looked, edited, most=most, uses=execution.target_uses)
            reply = await ask_and_record(session, need)
            if reply is None:
                return await session.pause(RunResult("awaiting_approval", str(need.request["question"])))
            if reply.choice in ("yes", "step"):
                step = step or reply.choice == "step"
                await record_confirmation(session, state, looked, state.digest, seen=True, step=step)
                return None
            if reply.choice != "edit":
                return await end_declined(session, reply.text)
            edited = await self.edit(state, reply.text)

    async def edit(self, state: PlanState, text: str) -> Planning:
        """Propose what the person made of the plan in its place; return it with everything that was found."""
        session = self.session
        reading = read_plan(text, query=state.current_plan.query, catalogue=session.catalogue)
        planning = assess_plan(session, reading, self.configuration, 0)
        if planning.plan is not None:
            await record_proposal(session, planning.plan, actor="person", notes=planning.notes, number=state.number)
        return planning

    async def run(self, state: PlanState, *, step: bool = False) -> Course:
        """Run the confirmed plan, and each further one after another yes, to an end or a pause.

        The person is asked before each task where they chose so, in whichever process, or with `step`.
        """
        while True:
            stepwise = step or state.stepwise
            self._run = run = self.build_run(state, step=stepwise)
            try:
                report = await run.run()
            finally:
                self._run = None
            if report.further is None:
                blocked = RunResult(report.status, report.reason, Report(blocker=report.reason))
                return Course(run.outcome or blocked, report)
            if self.on_further is not None:
                self.on_further(report)
            ended = await self.confirm(state, report, step=stepwise)
            if ended is not None:
                return Course(ended, report_declined(report) if ended.status == "cancelled" else report)

    def build_run(self, state: PlanState, *, step: bool = False) -> PlanRun:
        """Return the run of the session's plan; with `step` the person is asked before each task."""
        session, uses = self.session, self.configuration.execution.target_uses

        async def before(task: PlanTask) -> bool:
            if session.person is None:
                return False
            reply = await ask_and_record(
                session, build_task_need(state, task, await preview_open_tasks(session, state, uses))
            )
            return reply is not None and reply.choice == "yes"

        async def after(failed: StepState) -> FailureChoice | None:
            if session.person is None:
                return None
            reply = await ask_and_record(session, build_failure_need(state, failed))
            return next((one for one in failure_choices(failed) if reply is not None and reply.choice == one), None)

        asks = before if step else None
        execution, planning = self.model("execution"), self.model("planning")
        return PlanRun(session, state, self.configuration, execution, asks, after, planning)


@asynccontextmanager
async def follow_session(session: Session) -> AsyncIterator[PlanState]:
    """Yield the state of the session's plan, which follows the session until the block ends."""
    state = await get_plan_state(session)
    with session.subscribe(state.apply):
        yield state


def report_declined(report: PlanReport) -> PlanReport:
    """Return the report of a run whose further plan the person declined."""
    return replace(report, status="cancelled", reason="the further plan was not confirmed", further=None)

"""The desk that takes a task of a session through a plan: made, confirmed by the person, run, answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from foregate.agent.planning.ask.already import already
from foregate.agent.planning.ask.planner import plan_for, weighed
from foregate.agent.planning.ask.proposal import propose
from foregate.agent.planning.confirm.confirming import failure_need, needs_yes, plan_need, put, task_need
from foregate.agent.planning.confirm.control import confirm, decline, leave, look_ahead, standing
from foregate.agent.planning.format.configuration import Configuration, Role
from foregate.agent.planning.format.reader import read
from foregate.agent.planning.run.plan_report import PlanReport
from foregate.agent.planning.run.run_plan import PlanRun
from foregate.agent.session.result import Outcome
from foregate.agent.session.session import Session
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas.protocols import Model
from foregate.schemas.task_events import Report
from foregate.schemas.task_plan import FAILURE_CHOICES, FailureChoice, PlanDefect, PlanTask


@dataclass
class PlanDesk:
    """Takes the step the session's log asks for, so that another process goes on where one ended.

    `model` gives the model of a role, `planning` or `execution`. Whoever confirms is the session's person.
    """

    session: Session
    configuration: Configuration
    model: Callable[[Role], Model]
    _run: PlanRun | None = field(default=None, init=False)

    def pause(self) -> bool:
        """Let the plan that runs pause after the call in hand; see Desk."""
        if self._run is None or self._run.pausing:
            return False
        self._run.pause()
        return True

    async def go_on(self) -> Outcome:
        """Take the open task through its plan; see Desk."""
        session = self.session
        state = await standing(session)
        last: PlanReport | None = None
        with following(session, state):
            while True:
                task = session.state.task
                assert task is not None
                if task.running_plan:
                    run = self.run_of(state)
                    last = await self.carry_on(run)
                    if last.further is None:
                        return outcome_of(run, last)
                    continue
                ended = await (self.confirmed(state, last) if task.proposed_plan else self.planned())
                if ended is not None:
                    return ended

    async def planned(self) -> Outcome | None:
        """Have a plan made for what the person said in this task; None once one is proposed."""
        session = self.session
        task = session.state.task
        assert task is not None
        before = await already(session, self.configuration)
        query = task.messages[-1].text  # after a question of the planner this is another query
        planning = await plan_for(session, query, self.model("planning"), self.configuration, before)
        if planning.plan is not None:
            return None
        return await session.pause(Outcome("needs_input", planning.question))

    async def confirmed(self, state: PlanState, last: PlanReport | None) -> Outcome | None:
        """Have the proposed plan confirmed; None once it is, else how the task ended or paused."""
        session = self.session
        remarks: tuple[PlanDefect, ...] = ()
        uses, most = self.configuration.execution.target_uses, self.configuration.planning.max_plans
        while True:
            looked = await look_ahead(session, state, uses)
            if not needs_yes(self.configuration, state, looked):
                await confirm(session, state, looked, state.digest, seen=False)
                return None
            if session.person is None:
                return await leave(session, last)
            need = plan_need(state, looked, remarks, most=most, uses=uses)
            reply = await put(session, need)
            if reply is None:
                return await session.pause(Outcome("awaiting_approval", str(need.request["question"])))
            if reply.choice in ("yes", "step"):
                await confirm(session, state, looked, state.digest, seen=True, step=reply.choice == "step")
                return None
            if reply.choice != "edit":
                outcome = await decline(session, reply.text)
                assert outcome is not None
                return outcome
            remarks = await self.edited(state, reply.text)

    async def edited(self, state: PlanState, text: str) -> tuple[PlanDefect, ...]:
        """Propose what the person made of the plan in its place, or return what is wrong with it."""
        session = self.session
        reading = read(text, query=state.known.query, catalogue=session.catalogue)
        planning = weighed(session, reading, self.configuration, 0)
        if planning.plan is None:
            return planning.defects
        await propose(session, planning.plan, actor="person", notes=planning.notes, number=state.number)
        return ()

    def run_of(self, state: PlanState) -> PlanRun:
        """Return the run of the session's plan; stepwise, the person is asked before each task."""
        session = self.session
        uses = self.configuration.execution.target_uses

        async def before(task: PlanTask) -> bool:
            if session.person is None:
                return False
            reply = await put(session, task_need(state, task, await look_ahead(session, state, uses)))
            return reply is not None and reply.choice == "yes"

        async def after(step: StepState) -> FailureChoice | None:
            if session.person is None:
                return None
            reply = await put(session, failure_need(state, step))
            return next((choice for choice in FAILURE_CHOICES if reply is not None and reply.choice == choice), None)

        asks = before if state.stepwise else None
        execution, planning = self.model("execution"), self.model("planning")
        return PlanRun(session, state, self.configuration, execution, asks, after, planning)

    async def carry_on(self, run: PlanRun) -> PlanReport:
        """Run the plan to its end or pause."""
        self._run = run
        try:
            return await run.run()
        finally:
            self._run = None


@contextmanager
def following(session: Session, state: PlanState) -> Iterator[None]:
    """Let the state of the plan follow the session."""
    with session.subscribe(state.apply):
        yield


def outcome_of(run: PlanRun, report: PlanReport) -> Outcome:
    """Return how the session's task ended or paused with its plan."""
    if run.outcome is not None:
        return run.outcome
    return Outcome(report.status, report.reason, Report(blocker=report.reason))

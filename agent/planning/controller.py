"""Takes a task through its plan: it says what comes next, from the log alone and in the model's place, to the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from foregate.agent.loop import runner
from foregate.agent.loop.cancelling import answer_remaining, finish_steps
from foregate.agent.loop.internal_calls import build_remark
from foregate.agent.loop.runner import run_to_outcome
from foregate.agent.planning import control, next_step, outlook, planner
from foregate.agent.planning.answering import PlanReport, answer_results, build_report, render_summary
from foregate.agent.planning.configuration import Configuration, record_other_configuration
from foregate.agent.planning.reader import Reading, read_plan
from foregate.agent.planning.task_runner import TaskRunner
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.agent.workspace.cancelled_work import PERSON
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.event_body import Report, Status
from foregate.schemas.judgement import Need
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import FAILURE_CHOICES, PlanTask


@dataclass
class PlanController(TaskRunner):
    """What comes next in the planned task of a session; see PlanDriver.

    Whoever confirms is the session's person, in a chat, at the command line and in a program alike. `on_further` hears
    the report of a run that a further plan follows. With `step` the person is asked before each task, as where they
    chose so.
    """

    on_further: Callable[[PlanReport], None] | None = None
    step: bool = False

    def __post_init__(self) -> None:
        self.pausing = False
        self.begin()

    def begin(self) -> None:
        """Forget what concerned the run before: the tasks asked about, its report, and a pause it did not come to."""
        self._asked: set[int] = set()
        self._ended: PlanReport | None = None
        task = self.session.state.task
        self.pausing = self.pausing and task is not None and bool(task.running_plan)

    def pause(self) -> bool:
        """Let the plan that runs pause after the call in hand; see PlanDriver."""
        task = self.session.state.task
        if task is None or not task.running_plan or self.pausing:
            return False
        self.pausing = True
        return True

    async def follow(self) -> PlanState:
        """Return the state of the session's plan, which follows the session from now on."""
        if not self.state.session:
            self.state = await control.follow_plan(self.session)
        return self.state

    async def take_through(self, *, unseen: bool = False, step: bool = False) -> tuple[PlanReport, bool]:
        """Have the session's plan confirmed, see `confirm`, and run it; whether it ran. Cancelling ends the task."""
        self.begin()
        ran = False

        async def confirm_and_run() -> RunResult:
            nonlocal ran
            ended = await self.confirm(unseen=unseen, step=step)
            ran = ended is None
            return await run_to_outcome(self.session) if ended is None else ended

        return self.build_report(await finish_steps(self.session, confirm_and_run())), ran

    async def run(self) -> PlanReport:
        """Run the confirmed plan, and each further one after another yes, to an end or a pause."""
        return self.build_report(await run_to_outcome(self.session))

    def build_report(self, outcome: RunResult) -> PlanReport:
        """Return the report of the plan that ran last, where the session's task ended or paused so."""
        if self._ended is None:
            why = outcome.text or outcome.report.blocker
            return build_report(self.state, self.configuration.formatting, outcome.status, why)
        if self._ended.further is None or outcome.status != "cancelled":
            return self._ended
        return replace(self._ended, status="cancelled", reason="the further plan was not confirmed", further=None)

    async def take_step(self) -> RunResult | None:
        """Make the plan the task wants, have it confirmed, or take the next step of it; see PlanDriver."""
        state, task = await self.follow(), self.session.state.running_task
        if state.running:
            return await self._take_plan_step()
        if task.proposed_plan:
            return await self.confirm(step=self._ended is not None and (self.step or state.stepwise))
        before = await planner.collect_prior_work(self.session, self.configuration)
        # After a question of the planner this is another query.
        query = task.messages[-1].text
        how = self.model("planning"), self.configuration, before, self.assess
        planning = await planner.propose_plan(self.session, query, *how)
        if planning.plan is not None:
            return None
        return await planner.end_unplanned(self.session, planning)

    def assess(self, session: Session, reading: Reading, configuration: Configuration, tries: int) -> planner.Planning:
        """Return the plan a text held, or everything that is wrong with it in this workspace."""
        return planner.assess_plan(session, reading, configuration, tries)

    async def cancel(self, why: str = f"{PERSON} cancelled") -> RunResult | None:
        """End the plan under way because somebody cancelled it; see PlanDriver."""
        task = self.session.state.task
        if task is None or not task.running_plan:
            return None
        await self.follow()
        return await self.break_off_plan("cancelled", why)

    async def confirm(self, *, unseen: bool = False, step: bool = False) -> RunResult | None:
        """Have the proposed plan confirmed; None once it is, else how the task ended or paused.

        `unseen` says that somebody confirmed it beforehand without seeing the sheet, which is leave for nothing. With
        `step` the person is asked before each task, whatever they answer here.
        """
        session, state, uses = self.session, await self.follow(), self.configuration.execution.target_uses
        edited, most = planner.Planning(None), self.configuration.planning.max_plans
        while True:
            looked, digest = await control.preview_open_tasks(session, state, uses), state.digest
            if seen := not unseen and outlook.should_confirm(self.configuration, state, looked):
                if session.person is None:
                    return await control.end_unconfirmed(session, self._ended)
                need = outlook.build_plan_need(state, looked, edited, most=most, uses=uses)
                reply = await outlook.ask_and_record(session, need)
                if reply is None:
                    return await session.pause(RunResult("awaiting_approval", str(need.request["question"])))
                if reply.choice == "edit":
                    edited = await self._edit(reply.text)
                    continue
                if reply.choice not in ("yes", "step"):
                    return await control.end_declined(session, reply.text)
                step = step or reply.choice == "step"
            # Each plan numbers its tasks anew, and is asked about and paused by itself.
            self.begin()
            named = record_other_configuration(self.configuration, state.configuration)
            await control.record_confirmation(session, state, looked, digest, seen=seen, step=step, configuration=named)
            return None

    async def _edit(self, text: str) -> planner.Planning:
        session, state = self.session, self.state
        reading = read_plan(text, query=state.current_plan.query, catalogue=session.catalogue)
        planning = self.assess(session, reading, self.configuration, 0)
        if planning.plan is not None:
            await planner.record_proposal(
                session, planning.plan, self.configuration, actor="person", notes=planning.notes, number=state.number
            )
        return planning

    async def _take_plan_step(self) -> RunResult | None:
        # One that is not to be had is named before anything runs.
        self.model("execution"), self.model("planning")
        ended = await self._stop_if_interrupted()
        # A plan that was broken off may be followed by a further one.
        if ended is not None or not self.state.running:
            return ended
        steps = self.state.current_steps
        if not steps:
            return await self._choose()
        if paused := [step for step in steps if step.status == "paused"]:
            await self.change("running", *paused, why="resumed")
        elif steps[0].task.calls:
            await self.send_calls(steps)
        else:
            await self.fill_in_calls(steps[0])
        return None

    async def _stop_if_interrupted(self) -> RunResult | None:
        """Stop for what stands in the way of any further call: a question, a limit, a lost workspace, a pause."""
        session, task = self.session, self.session.state.running_task
        if task.question:
            return await session.pause(RunResult("needs_input", task.question))
        try:
            session.workspace.standing()
        except WorkspaceError as error:
            return await self.break_off_plan("failed", str(error))
        if limit := runner.find_reached_limit(task, session.policy, session.clock):
            return await self.break_off_plan("budget_exhausted", limit)
        if self.pausing:
            self.pausing = False
            why = "paused by the person"
            await self.change("paused", *self.state.current_steps, why=why)
            return await self._pause_plan(why)
        return None

    async def _choose(self) -> RunResult | None:
        strict = self.configuration.execution.strict_dependencies
        if failed := next_step.list_undecided(self.state):
            return await self.ask_after_failure(failed[0])
        if gone := list(next_step.find_aborted(self.state, strict)):
            for step, why in gone:
                await self.change("aborted", step, why=why)
            return None
        if (following := next_step.find_ready_task(self.state)) is None:
            return await self._finish_plan()
        step, skipped = following
        if skipped:
            await self.change("skipped", step, why=skipped)
            return None
        begun, stepwise = [step], self.step or self.state.stepwise
        if not stepwise:
            begun += next_step.companions(self.state, step, self.session.catalogue, self.parallel_limit)
        elif step.task.id not in self._asked:
            if not await self.ask_before_task(step.task):
                return await self._pause_plan(f"task {step.task.id} was not confirmed")
            self._asked.add(step.task.id)
        await self.change("running", *begun, anew=True)
        return None

    async def ask_before_task(self, task: PlanTask) -> bool:
        """Whether the person says yes to the next task; where nobody is here, nobody does."""
        if self.session.person is None:
            return False
        looked = await control.preview_open_tasks(self.session, self.state, self.configuration.execution.target_uses)
        request: dict[str, Json] = {
            "question": f"Run task {task.id}?",
            "answers": ["yes", "no"],
            "task": strict_json.dump(task),
            "calls": [outlook.describe_call(call) for call in looked.of(task.id)],
        }
        return await self._ask_person(f"task:{task.id}", request) == "yes"

    async def ask_after_failure(self, step: StepState) -> RunResult | None:
        """Have the person choose how to go on after a failure; where nobody does, the plan stays paused."""
        paused = await self._pause_plan(f"task {step.task.id} failed: {step.reason}")
        # no retry while it is unknown whether a call took effect
        choices = [choice for choice in FAILURE_CHOICES if choice != "retry" or not step.unknown_call]
        request: dict[str, Json] = {
            "question": f"Task {step.task.id} failed: {step.reason}. How to go on?",
            "answers": list(choices),
            "failed": step.task.id,
        }
        said = await self._ask_person(f"failure:{step.task.id}", request)
        choice = next((one for one in choices if one == said), None)
        if choice is None:
            return paused
        await control.decide(self.session, self.state, step, choice)
        return None

    async def _ask_person(self, key: str, request: Mapping[str, Json]) -> str:
        """Return what the person chooses, "" where they do not now."""
        need = Need(planner.GATE, "person", key, (), (self.state.digest,), request)
        reply = await outlook.ask_and_record(self.session, need)
        return reply.choice if reply is not None else ""

    async def _finish_plan(self) -> RunResult | None:
        steps = self.state.steps.values()
        failed = [step for step in steps if step.status == "failed"]
        final = next((step.final for step in failed if step.final), "")
        why = final or "; ".join(f"task {step.task.id} failed: {step.reason}" for step in failed)
        complete = not failed and all(step.status != "aborted" for step in steps)
        back = self.state.current_plan.on_failure == "rollback" or any(step.choice == "roll_back" for step in failed)
        if failed and back and not self.state.dry_run:
            left = await self.take_back(steps)
            why += "; what was done was taken back" + (f", except: {'; '.join(left)}" if left else "")
        ruled_out = bool(failed) and all(step.is_ruled_out for step in failed)
        return await self.end_plan("blocked" if final or ruled_out else "completed" if complete else "failed", why)

    async def take_back(self, steps: Iterable[StepState]) -> list[str]:
        """Undo what tasks changed; return what stays done."""
        return await control.undo_plan(self.session, self.state, steps)

    async def break_off_plan(self, status: Status, why: str) -> RunResult | None:
        """End the plan for something that no task is to blame for."""
        await answer_remaining(self.session, "not_run_cancelled", why)
        await self.change("aborted", *self.state.open, why=why)
        return await self.end_plan(status, why)

    async def end_plan(self, status: Status, why: str) -> RunResult | None:
        """End the session's task with the planner's answer, or the report in words; a further plan keeps it open."""
        report = build_report(self.state, self.configuration.formatting, status, why)
        model = self.model("planning")
        report = await answer_results(self.session, self.state, self.configuration, model, report, self.assess)
        self._ended, task = report, self.session.state.task
        if report.further is not None:
            if self.on_further is not None:
                self.on_further(report)
            return None
        said = report.answer if task is not None else ""
        marked = build_remark(task, said, self.session.policy) if task is not None and said else ""
        need, text = "`plans retry` or another plan", report.answer or render_summary(report)
        return await self.session.end_task(status, text, remark=marked, blocker=why, need=need)

    async def _pause_plan(self, why: str) -> RunResult:
        goes_on = f"/execute in a chat, or `foregate plans resume {self.session.name}`, goes on"
        return await self.session.pause(RunResult("paused", why, Report(blocker=why, next_step=goes_on)))

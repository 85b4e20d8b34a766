"""Running a confirmed plan, one step the state asks for after another; so a later process goes on where one ended."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from foregate.agent.effects.executor import reconcile_calls
from foregate.agent.loop import runner
from foregate.agent.loop.dispatch import answer_remaining
from foregate.agent.loop.internal_calls import build_remark
from foregate.agent.loop.runner import take_step
from foregate.agent.planning.format.configuration import Configuration
from foregate.agent.planning.run.answering import answer_results
from foregate.agent.planning.run.control import decide, record_change, undo_plan
from foregate.agent.planning.run.filling import ENDING, FILLED_IN, ask_for_calls, lacking, may_go_again
from foregate.agent.planning.run.next_step import (
    Place,
    companions,
    find_aborted,
    find_end_reason,
    find_ready_task,
    list_undecided,
    next_places,
)
from foregate.agent.planning.run.plan_report import PlanReport, build_report
from foregate.agent.planning.run.task_context import build_fill_request, render_task_heading
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.plan import CallState, PlanState, StepState, describe_unknown_call
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.event import Draft, ModelResponded
from foregate.schemas.event_body import Report, Status
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Model
from foregate.schemas.task_plan import FailureChoice, PlanTask
from foregate.schemas.tool_call import ToolCall

Before = Callable[[PlanTask], Awaitable[bool]]
"""Asked before each task where a person confirms step by step; no is a pause."""
OnFailure = Callable[[StepState], Awaitable[FailureChoice | None]]
"""Asked after a task failed where the plan says so; None is not now."""


@dataclass
class PlanRun:
    """A plan under way in a session. `state` is folded from the session's events, so nothing here must be kept.

    The `planner` is told the results; without one nobody is. `outcome` is how the session's task ended or paused.
    """

    session: Session
    state: PlanState
    configuration: Configuration
    model: Model | None = None
    before: Before | None = None
    on_failure: OnFailure | None = None
    planner: Model | None = None
    outcome: RunResult | None = field(default=None, init=False)
    pausing: bool = field(default=False, init=False)
    _asked: set[int] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.change = partial(record_change, self.session, self.state)

    def pause(self) -> None:
        """Pause after the call in hand."""
        self.pausing = True

    async def run(self) -> PlanReport:
        """Work on the plan until it ends or pauses. Cancelling leaves every call answered and ends the plan."""
        try:
            while (report := await self.advance()) is None:  # noqa: ASYNC110 - it works, it does not poll
                await asyncio.sleep(0)
            return report
        except asyncio.CancelledError:
            return await self.cancel_plan()

    async def advance(self) -> PlanReport | None:
        """Take the one step the state asks for."""
        open_turn = self.session.state.open
        if open_turn is not None and open_turn.response.calls:
            outcome = await take_step(self.session)
            return self.report_waiting(outcome) if outcome is not None else None
        if report := await self.stop_if_interrupted():
            return report
        steps = self.state.current_steps
        if not steps:
            return await self.choose()
        if paused := [step for step in steps if step.status == "paused"]:
            await self.change("running", *paused, why="resumed")
        else:
            await (self.send(steps) if steps[0].task.calls else self.fill_in_calls(steps[0]))
        return None

    async def stop_if_interrupted(self) -> PlanReport | None:
        """Stop for what stands in the way of any further call: a question, a limit, a lost workspace, a pause."""
        task = self.session.state.task
        assert task is not None
        if task.question:
            return self.report_waiting(await self.session.pause(RunResult("needs_input", task.question)))
        if why := find_damage(self.session.workspace):
            return await self.break_off_plan("failed", why)
        if limit := runner.find_reached_limit(task, self.session.policy, self.session.clock):
            return await self.break_off_plan("budget_exhausted", limit)
        if self.pausing:
            self.pausing = False
            why = "paused by the person"
            await self.change("paused", *self.state.current_steps, why=why)
            return await self.pause_plan(why)
        return None

    async def choose(self) -> PlanReport | None:
        """Abort what cannot run any more, begin the next task, or end the plan."""
        strict = self.configuration.execution.strict_dependencies
        if failed := list_undecided(self.state):
            return await self.ask_person(failed[0])
        if gone := list(find_aborted(self.state, strict)):
            for step, why in gone:
                await self.change("aborted", step, why=why)
            return None
        following = find_ready_task(self.state)
        if following is None:
            return await self.finish_plan()
        if following.skipped:
            await self.change("skipped", following.step, why=following.skipped)
            return None
        number = following.step.task.id
        if self.before is not None and number not in self._asked:
            if not await self.before(following.step.task):
                return await self.pause_plan(f"task {number} was not confirmed")
            self._asked.add(number)
        begun = [following.step]
        if self.before is None:
            begun += companions(self.state, following.step, self.session.catalogue, self.parallel_limit)
        await self.change("running", *begun, anew=True)
        return None

    async def ask_person(self, step: StepState) -> PlanReport | None:
        """Have a person choose how to go on after a failure; where nobody does, the plan pauses."""
        report = await self.pause_plan(f"task {step.task.id} failed: {step.reason}")
        choice = await self.on_failure(step) if self.on_failure is not None else None
        if choice is None:
            return report
        await decide(self.session, self.state, step, choice)
        return None

    @property
    def parallel_limit(self) -> int:
        """How many observations may run together."""
        if not self.configuration.execution.parallel_observations:
            return 1
        bounds = self.session.policy.limits
        return min(bounds.parallel_calls, bounds.calls_per_response or sys.maxsize)

    async def send(self, steps: list[StepState]) -> None:
        """Say what came of one of the tasks in hand, or send the next calls of all of them."""
        for step in steps:
            if await self.conclude_task(step):
                return
        if ending := find_end_reason(self.state):
            await self.change("aborted", *steps, why=ending)
        else:
            await self.send_places(next_places(steps, self.session.catalogue, self.parallel_limit))

    async def conclude_task(self, step: StepState) -> bool:
        """Say what came of a task that lists its calls; return whether there was anything to say."""
        left, unknown = step.open_places, [call for call in step.calls if call.status == "unknown"]
        if unknown:
            await self.reconcile_call(step, unknown[0])
        elif not left:
            await self.record_done(step)
        elif (stopped := next((call for call in step.newest_calls if not may_go_again(call, step)), None)) is not None:
            await self.record_failure(step, stopped.why, stopped.code)
        else:
            return False
        return True

    async def send_places(self, places: list[Place]) -> None:
        """Record tasks' own calls as the response whose calls the judge judges."""
        planned = [step.task.calls[place] for step, place in places]
        calls = tuple(ToolCall.of(call.tool, call.arguments) for call in planned)
        tasks = {step.task.id: step.task for step, _ in places}.values()
        text = "\n".join(render_task_heading(task, len(self.state.steps)) for task in tasks)
        response = ModelResponse(text, calls, finish_reason="tool_calls", model="plan")
        body = ModelResponded.of(
            response.stamp_calls(self.session.state.seq + 1),
            places=[place for _, place in places],
            tasks=[step.task.id for step, _ in places],
        )
        await self.session.record(Draft(body, "planner"))

    async def fill_in_calls(self, step: StepState) -> None:
        """Have the execution model fill in the calls of a task that lists none, or say what came of them."""
        if not step.asks:
            await self.ask(step, "")
        elif not step.responded:
            model = self.model or self.session.model
            if error := await ask_for_calls(self.session, model, step, self.configuration):
                await self.ask_again(step, error)
        else:
            await self.assess_filled_calls(step)

    async def assess_filled_calls(self, step: StepState) -> None:
        """Say what came of the filled-in calls, or ask once more with the reason."""
        wrong = next((call for call in step.newest_calls if not call.is_settled), None)
        if wrong is not None and wrong.status == "unknown":
            await self.reconcile_call(step, wrong)
        elif wrong is not None and wrong.status in ("failed", "denied"):
            await self.record_failure(step, wrong.why, wrong.code)
        elif missing := wrong.why if wrong is not None else lacking(step, self.session.catalogue):
            await self.ask_again(step, missing, wrong.code if wrong is not None else "")
        else:
            await self.record_done(step)

    async def reconcile_call(self, step: StepState, call: CallState) -> None:
        """Look what came of a call with an unknown outcome; where looking does not tell, the task failed."""
        if call.code in ENDING or all(found.call != call.id for found in await reconcile_calls(self.session)):
            await self.record_failure(
                step, f"nobody knows whether {describe_unknown_call(call)} took effect ({call.why})", call.code
            )

    async def ask_again(self, step: StepState, why: str, code: str = "") -> None:
        """Have a task filled in once more, with the reason; one that was asked for often enough failed."""
        await (self.ask(step, why) if step.asks < FILLED_IN else self.record_failure(step, why, code))

    async def ask(self, step: StepState, why: str) -> None:
        """Record what the execution model is asked; `why` says what was wrong with its first answer."""
        model = (self.model or self.session.model).name
        request = await build_fill_request(self.session, self.state, step, self.configuration, model, why)
        await self.change("running", step, why=why, ask=request)

    async def record_done(self, step: StepState) -> None:
        """Record that a task is done; in a dry run nothing is."""
        dry = any(call.status == "judged_dry" for call in step.calls)
        await self.change("skipped" if dry else "done", step, why="dry run: judged, and would have run" if dry else "")

    async def record_failure(self, step: StepState, why: str, code: str = "") -> None:
        """Record that a task failed; a denial by rule and a lost runtime end the whole plan."""
        final = f"task {step.task.id} {ENDING[code]}" if code in ENDING else ""
        await self.change("failed", step, why=why, final=final)

    async def finish_plan(self) -> PlanReport:
        """End a plan of which nothing is left to do, rolled back where it says so."""
        failed = [step for step in self.state.steps.values() if step.status == "failed"]
        final = next((step.final for step in failed if step.final), "")
        why = final or "; ".join(f"task {step.task.id} failed: {step.reason}" for step in failed)
        rest = [step for step in self.state.steps.values() if step.status == "aborted"]
        status: Status = "blocked" if final else "failed" if failed or rest else "completed"
        back = self.state.current_plan.on_failure == "rollback" or any(step.choice == "roll_back" for step in failed)
        if failed and back and not self.state.dry_run:
            left = await undo_plan(self.session, self.state)
            why += "; what was done was taken back" + (f", except: {'; '.join(left)}" if left else "")
        return await self.end_plan(status, why)

    async def break_off_plan(self, status: Status, why: str) -> PlanReport:
        """End the plan for something that no task is to blame for."""
        await answer_remaining(self.session, "not_run_cancelled", why)
        await self.change("aborted", *self.state.open, why=why)
        return await self.end_plan(status, why)

    async def cancel_plan(self) -> PlanReport:
        """End the plan because the person cancelled it."""
        return await self.break_off_plan("cancelled", "the person cancelled")

    async def end_plan(self, status: Status, why: str) -> PlanReport:
        """End the session's task with the planner's answer, or the report in words; a further plan keeps it open."""
        report = self.build_report(status, why)
        if self.planner is not None:
            report = await answer_results(self.session, self.state, self.configuration, self.planner, report)
        if report.further is None:
            task = self.session.state.task
            marked = build_remark(task) if report.answer and task is not None else ""
            need = "`plans retry` or another plan"
            text = report.answer or render_summary(report)
            self.outcome = await self.session.end_task(status, text, remark=marked, blocker=why, need=need)
        return report

    async def pause_plan(self, why: str) -> PlanReport:
        """Record that the plan waits for a person."""
        goes_on = f"/execute in a chat, or `foregate plans resume {self.session.name}`, goes on"
        self.outcome = RunResult("paused", why, Report(blocker=why, next_step=goes_on))
        await self.session.pause(self.outcome)
        return self.build_report("paused", why)

    def report_waiting(self, outcome: RunResult) -> PlanReport:
        """Return the report of a plan that a question or an approval paused, or that the loop ended."""
        self.outcome = outcome
        return self.build_report(outcome.status, outcome.text or outcome.report.blocker)

    def build_report(self, status: str, why: str) -> PlanReport:
        """Return the report of the plan as it stands, written as the configuration says."""
        return build_report(self.state, self.configuration.formatting, status, why)


def find_damage(workspace: Workspace) -> str:
    """Return why no further call may touch the workspace, "" while it stands."""
    try:
        workspace.standing()
    except WorkspaceError as error:
        return str(error)
    return ""


def render_summary(report: PlanReport) -> str:
    """Return the report as the text the session's task ends with."""
    counts: dict[str, int] = {}
    for task in report.tasks:
        counts[task.status] = counts.get(task.status, 0) + 1
    told = ", ".join(f"{count} {status}" for status, count in counts.items())
    sentences = [f"Plan `{report.plan.goal[:200]}`: {told}.", report.reason, report.unanswered]
    return " ".join(sentence for sentence in sentences if sentence)

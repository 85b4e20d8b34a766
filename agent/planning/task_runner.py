"""What is done for the tasks of a plan that run: listed calls are sent, others filled in by the execution model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from foregate.agent.loop.reconcile import reconcile_calls
from foregate.agent.planning import control, filling, next_step
from foregate.agent.planning.configuration import Configuration, Role, record_other_configuration
from foregate.agent.session.session import Session
from foregate.evidence.state.plan import CallState, PlanState, StepState
from foregate.schemas.event import Draft, ModelResponded
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Model
from foregate.schemas.task_plan import TaskStatus
from foregate.schemas.tool_call import ToolCall


@dataclass
class TaskRunner:
    """Runs tasks of a session's plan. `state` follows the session's events; `model` gives the model of a role."""

    session: Session
    configuration: Configuration
    model: Callable[[Role], Model]
    state: PlanState = field(default_factory=PlanState)

    @property
    def parallel_limit(self) -> int:
        """How many looks may run at the same time."""
        if not self.configuration.execution.parallel_observations:
            return 1
        bounds = self.session.policy.limits
        return min(bounds.parallel_calls, bounds.calls_per_response or sys.maxsize)

    async def change(self, status: TaskStatus, *steps: StepState, **more: Any) -> None:
        """Record where tasks stand; see `record_change`."""
        named = record_other_configuration(self.configuration, self.state.configuration)
        await control.record_change(self.session, self.state, status, *steps, configuration=named, **more)

    async def send_calls(self, steps: list[StepState]) -> None:
        """Send the next calls that tasks list, or record how a task ended."""
        for step in steps:
            if await self._conclude_task(step):
                return
        if ending := next_step.find_end_reason(self.state):
            await self.change("aborted", *steps, why=ending)
        else:
            await self._send_places(next_step.next_places(steps, self.session.catalogue, self.parallel_limit))

    async def _conclude_task(self, step: StepState) -> bool:
        """Record the outcome of a task that lists its calls; return whether it has one."""
        if unknown := next((call for call in step.calls if call.status == "unknown"), None):
            await self.reconcile_call(step, unknown)
        elif not step.open_places:
            await self._record_done(step)
        elif stopped := next((call for call in step.newest_calls if not filling.may_go_again(call, step)), None):
            await self._record_failure(step, stopped.why, stopped.code)
        else:
            return False
        return True

    async def _send_places(self, places: list[next_step.Place]) -> None:
        planned = [step.task.calls[place] for step, place in places]
        calls = tuple(ToolCall.of(call.tool, call.arguments) for call in planned)
        tasks = {step.task.id: step.task for step, _ in places}.values()
        text = "\n".join(filling.render_task_heading(task, len(self.state.steps)) for task in tasks)
        response = ModelResponse(text, calls, finish_reason="tool_calls", model="plan")
        body = ModelResponded.of(
            response.stamp_calls(self.session.state.seq + 1),
            places=[place for _, place in places],
            tasks=[step.task.id for step, _ in places],
        )
        await self.session.record(Draft(body, "planner"))

    async def fill_in_calls(self, step: StepState) -> None:
        """Have the execution model write the calls of a task that lists none, or look at what they gave."""
        if not step.asks:
            await self._ask(step, "")
        elif step.responded:
            await self._assess_filled_calls(step)
        elif error := await self.ask_for_calls(step):
            await self._ask_again(step, error)

    async def ask_for_calls(self, step: StepState) -> str:
        """Have the execution model fill in a task; return why it did not, "" where it did."""
        return await filling.ask_for_calls(self.session, self.model("execution"), step, self.configuration)

    async def _assess_filled_calls(self, step: StepState) -> None:
        wrong = next((call for call in step.newest_calls if not call.is_settled), None)
        if wrong is not None and wrong.status == "unknown":
            await self.reconcile_call(step, wrong)
        elif wrong is not None and wrong.status in ("failed", "denied"):
            await self._record_failure(step, wrong.why, wrong.code)
        elif wrong is not None:
            await self._ask_again(step, wrong.why, wrong.code)
        elif missing := filling.find_lack(step, self.session.catalogue, self.session.policy):
            await self._ask_again(step, missing)
        else:
            await self._record_done(step)

    async def reconcile_call(self, step: StepState, call: CallState) -> None:
        """Look for the outcome of a call where it is unknown; where looking does not tell, the task failed."""
        if call.code in filling.ENDING or all(found.call != call.id for found in await reconcile_calls(self.session)):
            why = f"it is unknown whether {call.label} took effect ({call.why})"
            await self._record_failure(step, why, call.code)

    async def _ask_again(self, step: StepState, why: str, code: str = "") -> None:
        await (self._ask(step, why) if step.asks < filling.FILLED_IN else self._record_failure(step, why, code))

    async def _ask(self, step: StepState, why: str) -> None:
        model = self.model("execution").name
        request = await filling.build_fill_request(self.session, self.state, step, self.configuration, model, why)
        await self.change("running", step, why=why, ask=request)

    async def _record_done(self, step: StepState) -> None:
        dry = any(call.status == "judged_dry" for call in step.calls)
        await self.change("skipped" if dry else "done", step, why="dry run: judged, and would have run" if dry else "")

    async def _record_failure(self, step: StepState, why: str, code: str = "") -> None:
        """Record that a task failed; a denial by rule and a lost runtime end the whole plan."""
        final = f"task {step.task.id} {filling.ENDING[code]}" if code in filling.ENDING else ""
        await self.change("failed", step, why=why, final=final)

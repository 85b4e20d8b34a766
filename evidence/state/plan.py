"""How far a plan has come: a fold over the events of its session, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never

from foregate.evidence.state.task import parse_time
from foregate.schemas import event_body, strict_json, task_plan
from foregate.schemas.event import Event, ModelResponded, NeedAnswered
from foregate.schemas.event_body import EffectUndone, Kind, TaskEnded, TaskPaused
from foregate.schemas.model_response import WireMessage
from foregate.schemas.strict_json import get_text
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Effect

CallStatus = Literal["open", "done", "failed", "held", "denied", "not_run", "judged_dry", "unknown", "undone"]
Ended: TypeAlias = event_body.ToolFinished | event_body.CallAnswered | event_body.OutcomeUnknown

ROLLED_BACK = "rolled back"
"""With these words begins the reason of a task when something of it was undone."""
NOT_DONE = "not_done"
"""The code of a call whose outcome was unknown, and that is known now to have had no effect."""

_SUMMARY = 200
"""Characters of a result that stand for it in one line."""


@dataclass(slots=True)
class CallState:
    """One call made for a task. `position` is its place in the task's own list, -1 where a model filled it in.

    `effect` says that it is nothing to be repeated: it had an effect, at most once, and was no command. `cured` says
    that the same call may pass now, for a hold's remedy was performed. `code` is why it did not run, or what ended it.
    `ended` is what ended it in full, `came` its outcome where that was unknown first. `own` holds the fields
    of the call that only its endpoint understands.
    """

    call: ToolCall
    position: int
    may_fail: bool = False
    target: str = ""
    status: CallStatus = "open"
    text: str = ""
    why: str = ""
    code: str = ""
    effect: bool = False
    cured: bool = False
    exit_code: int | None = None
    ended: Ended | None = None
    came: event_body.KnownOutcome | None = None
    own: str = ""

    @property
    def id(self) -> str:
        """The call's id in the log."""
        return self.call.id

    @property
    def tool(self) -> str:
        """The name of its tool."""
        return self.call.name

    @property
    def label(self) -> str:
        """What the call is called, with the id by which a person settles it."""
        return f"{f'{self.tool} {self.target}'.strip()} ({self.id})"

    def apply(self, body: event_body.AnyCallBody) -> None:
        """Take in an event of the call."""
        if isinstance(body, event_body.EndBody):
            self.ended, self.target = body, body.target
        match body:
            case event_body.SandboxEnded():
                pass
            case event_body.ToolStarted(side_effect=side_effect, effect=effect):
                self.effect = side_effect == "at_most_once" and effect is not Effect.EXECUTE
            case event_body.ToolFinished(ok=ok):
                self.text, self.exit_code, self.status = body.content, body.exit_code, "done"
                if not ok:
                    self.status = "not_run" if body.error == NOT_DONE else "failed"
                    self.code, self.why = body.error, shorten_reason(body.content or body.error or "it failed")
            case event_body.CallAnswered():
                ruled: dict[str, CallStatus] = {"hold": "held", "deny": "denied"}
                dry = body.code == "not_run_dry_run"
                self.status = "judged_dry" if dry else ruled.get(body.ruling, "not_run")
                self.code, self.why = body.code, shorten_reason(body.message)
                self.cured = body.observed is not None and body.observed.ok
            case event_body.OutcomeUnknown():
                self.status, self.code, self.why = "unknown", body.error, shorten_reason(body.reason)
            case event_body.OutcomeResolved(outcome=outcome):
                self.came, self.effect = outcome, outcome == "done"
                self.status, self.why, self.code = "not_run", "it did not take effect", NOT_DONE
                if self.effect:
                    self.status, self.why, self.code = "done", "", ""
            case event_body.EffectUndone():
                self.status, self.why = "undone", "undone"
            case _:
                assert_never(body)

    @property
    def has_run_well(self) -> bool:
        """Whether the call ran without failing, or would have in a dry run."""
        return self.status in ("done", "judged_dry")

    @property
    def is_settled(self) -> bool:
        """Whether the call has done what it was for: it ran well, or failed as it may."""
        return self.has_run_well or (self.may_fail and self.status == "failed" and self.code == "exit_code")


@dataclass(slots=True)
class StepState:
    """One task and all that was done for it. `asks` counts the requests to fill it in of this attempt.

    `request` is the hash of what the execution model was last asked, `thoughts` what it thought aloud. `sent` counts
    how often each of the task's own calls was sent in this attempt. `final` names why the failure ends the whole plan,
    "" where it does not; `choice` is what a person chose after it failed. `heard` says that there was a response for
    the task in whichever attempt, `responded` in this one since it was asked; `latest` are the ids of its calls. `wire`
    is what only its endpoint understands of the newest response.
    """

    task: task_plan.PlanTask
    status: task_plan.TaskStatus = "pending"
    reason: str = ""
    final: str = ""
    choice: str = ""
    attempt: int = 0
    asks: int = 0
    calls: list[CallState] = field(default_factory=list)
    latest: tuple[str, ...] = ()
    words: str = ""
    thoughts: str = ""
    request: str = ""
    refused: str = ""
    responded: bool = False
    heard: bool = False
    began: str = ""
    worked: int = 0
    sent: dict[int, int] = field(default_factory=dict)
    wire: WireMessage | None = None

    @property
    def open_places(self) -> list[int]:
        """The places of the task's own calls that have not done what they are for."""
        newest = {call.position: call for call in self.calls}
        return [at for at in range(len(self.task.calls)) if at not in newest or not newest[at].is_settled]

    @property
    def effects(self) -> set[str]:
        """The digests of the calls for this task that took effect and were not taken back, as far as is known."""
        return {call.call.digest for call in self.calls if call.effect and call.status == "done"}

    @property
    def newest_calls(self) -> list[CallState]:
        """The calls of the newest response for this task."""
        return [call for call in self.calls if call.id in self.latest]

    @property
    def is_ruled_out(self) -> bool:
        """Whether the task failed because a call of it was not let go, and none ran and failed."""
        newest = {call.status for call in self.newest_calls}
        return self.status == "failed" and not newest.isdisjoint(("denied", "held")) and "failed" not in newest

    @property
    def unknown_call(self) -> str:
        """The first call with an unknown outcome, named as a person settles it, "" for none."""
        return next((call.label for call in self.calls if call.status == "unknown"), "")

    @property
    def result(self) -> task_plan.TaskResult:
        """The outcome of the task so far."""
        responses = tuple(
            task_plan.TaskCallResult(c.has_run_well, c.text, (c.why,) if c.why else (), c.exit_code) for c in self.calls
        )
        said = self.words or next((call.text for call in reversed(self.calls) if call.is_settled), "")
        return task_plan.TaskResult(
            self.task.id,
            self.status,
            tuple(call.id for call in self.calls),
            responses,
            " ".join(said.split())[:_SUMMARY],
            self.worked,
            "" if self.status == "done" else self.reason,
            self.thoughts,
        )


class PlanState:
    """The newest plan of a session and where each of its tasks stands. `apply` takes events in order.

    `planned` says that the planner wrote the plan for words the person said; a file's are not, nor is what follows it.
    `running` says that it is confirmed, and its session task not ended. `number` counts the plans made for its request,
    `earlier` are the tasks of those before it. `answer` is what the planning model said to the results, `configuration`
    what the log named last that the plan stands under.
    """

    def __init__(self) -> None:
        self.session = self.digest = self.proposed = self.status = self.answer = ""
        self.plan: task_plan.TaskPlan | None = None
        self.configuration: task_plan.RecordedConfiguration | None = None
        self.planned = self.confirmed = self.dry_run = self.stepwise = self.running = False
        self.number = 0
        self.steps: dict[int, StepState] = {}
        self.earlier: list[StepState] = []
        self._calls: dict[str, CallState] = {}

    @classmethod
    def of(cls, events: Iterable[Event]) -> PlanState:
        """Return the state a session's events lead to."""
        state = cls()
        for event in events:
            state.apply(event)
        return state

    @property
    def current_plan(self) -> task_plan.TaskPlan:
        """The plan; there is one when anything is asked of it."""
        assert self.plan is not None
        return self.plan

    @property
    def is_intact(self) -> bool:
        """Whether the plan in the log is the one that was proposed."""
        return self.plan is not None and self.plan.digest == self.digest

    @property
    def current_steps(self) -> list[StepState]:
        """The tasks in hand: one, or several that only look."""
        return [step for step in self.steps.values() if step.status in ("running", "paused")]

    @property
    def open(self) -> list[StepState]:
        """The tasks that are still to be worked on."""
        return [step for step in self.steps.values() if step.status in ("pending", "running", "paused")]

    @property
    def calls_undone(self) -> list[CallState]:
        """The calls that were undone, in the order of the tasks."""
        return [call for step in self.steps.values() for call in step.calls if call.status == "undone"]

    @property
    def results(self) -> dict[int, task_plan.TaskResult]:
        """The results of the tasks that have one."""
        return {number: step.result for number, step in self.steps.items() if step.status != "pending"}

    def apply(self, event: Event) -> None:
        """Take in one event, also of a session that follows the plan's; one of a helper that a task started is none."""
        self.session = self.session or event.session
        if event.session != self.session and "." in event.session:
            return
        match event.body:
            case task_plan.PlanProposed() as body:
                self._start_plan(event, body)
            case task_plan.PlanConfirmed() as body:
                self.confirmed = self.running = True
                self.dry_run, self.stepwise, self.status, self.answer = body.dry_run, body.step, "", ""
                self.configuration = body.configuration or self.configuration
            case NeedAnswered(answer=answer) if answer.gate == "plan_results" and answer.value:
                self.answer = get_text(answer.value, "answer", "")
            case task_plan.PlanStepChanged(plan=self.digest) as body:
                self._change_step(event, body)
            case ModelResponded() as body if self.current_steps and self.running:
                self._add_response(body)
            case TaskEnded(status=status) if self.running:
                self.running, self.status = False, status
                for step in self.open:
                    step.status, step.reason = "aborted", "the run of the plan ended before this"
            case event_body.CallBody() as body if body.call in self._calls:
                self._calls[body.call].apply(body)
            case _:
                pass

    def _start_plan(self, event: Event, body: task_plan.PlanProposed) -> None:
        self.plan, self.digest, self.proposed = body.proposal, body.digest, event.time
        self.configuration = body.configuration
        self.confirmed = self.running = False
        self.number, self.answer, self.status = body.number, "", ""
        self.planned = event.actor == "planner" and (self.planned or self.number == 1)
        self.earlier = [*self.earlier, *self.steps.values()] if self.number > 1 else []
        self.steps = {task.id: StepState(task) for task in self.plan.tasks}
        if self.number == 1:
            self._calls = {}

    def _change_step(self, event: Event, body: task_plan.PlanStepChanged) -> None:
        step = self.steps[body.step]
        self.configuration = body.configuration or self.configuration
        if step.status == "running" and step.began:
            worked = parse_time(event.time) - parse_time(step.began)
            step.worked, step.began = step.worked + max(0, round(worked.total_seconds() * 1000)), ""
        step.status, step.reason, step.final, step.choice = body.status, body.reason or "", body.final, body.choice
        if step.status == "running":
            step.began = event.time
            if body.attempt:
                step.attempt, step.asks, step.responded, step.latest, step.sent = body.attempt, 0, False, (), {}
            if body.ask is not None:
                step.request, step.asks, step.responded = body.ask.request, step.asks + 1, False

    def _add_response(self, body: ModelResponded) -> None:
        calls, first = body.response.calls, self.current_steps[0].task.id
        places = (-1,) * len(calls) if body.places is None else body.places
        tasks = (first,) * len(calls) if body.tasks is None else body.tasks
        for number in {*tasks} or {first}:
            step = self.steps[number]
            step.latest, step.responded, step.heard, step.refused = (), True, True, body.refused
            step.words, step.thoughts = (body.text, body.reasoning) if body.places is None else ("", "")
            step.wire = body.wire.with_reasoning(body.reasoning) if body.wire is not None else step.wire
        own = body.wire.calls if body.wire is not None and len(body.wire.calls) == len(calls) else ("",) * len(calls)
        for call, place, number, fields in zip(calls, places, tasks, own, strict=True):
            step = self.steps[number]
            self._calls[call.id] = made = CallState(call, place, step.task.may_fail, own=fields)
            step.calls.append(made)
            step.latest = (*step.latest, call.id)
            step.sent[place] = step.sent.get(place, 0) + 1


def shorten_reason(text: str) -> str:
    """Return a reason in one storable line."""
    return strict_json.scrub(" ".join(text.split()))[:_SUMMARY]


STANDING: tuple[Kind, ...] = ("plan_proposed", "plan_confirmed", "plan_step_changed", "task_paused", "task_ended")
"""What it takes to say where the tasks of a plan stand."""
_OUTCOMES: tuple[Kind, ...] = ("tool_finished", "call_answered", "outcome_unknown", "outcome_resolved", "effect_undone")
RESULTS: tuple[Kind, ...] = (*STANDING, "need_answered", "model_response", *_OUTCOMES)
"""What it takes to name their outcomes."""


@dataclass(slots=True)
class PlanEntry:
    """One plan of a session: its `number` there, from 1, and whether it is the `latest`; `waits` says for what."""

    session: str
    number: int
    state: PlanState = field(default_factory=PlanState)
    latest: bool = True
    waits: str = ""

    @property
    def name(self) -> str:
        """The name the plan is asked for by: its session's, with a number where a later plan has taken that."""
        return self.session if self.latest else f"{self.session}/{self.number}"

    @property
    def standing(self) -> str:
        """Where the plan stands, in words."""
        if not self.state.confirmed:
            return "not confirmed"
        if self.state.running:
            return self.waits.replace("_", " ") or "under way" if self.latest else "replaced"
        if any(step.reason.startswith(ROLLED_BACK) for step in self.state.steps.values() if step.status == "aborted"):
            return ROLLED_BACK
        return "dry run" if self.state.dry_run else self.state.status.replace("_", " ")

    def count_tasks(self, *statuses: str) -> int:
        """Return how many tasks stand so."""
        return sum(step.status in statuses for step in self.state.steps.values())


def read_plans(events: Iterable[Event]) -> list[PlanEntry]:
    """Return the plans the events of one session tell of, oldest first.

    An event is the newest plan's; only what was undone later is told to those before it as well.
    """
    found: list[PlanEntry] = []
    for event in events:
        if isinstance(event.body, task_plan.PlanProposed):
            if found:
                found[-1].latest = False
            found.append(PlanEntry(event.session, len(found) + 1))
        for entry in found if isinstance(event.body, EffectUndone) else found[-1:]:
            entry.state.apply(event)
            entry.waits = event.body.reason if isinstance(event.body, TaskPaused) else ""
    return found

"""A task that waits for a person: whether it does, what their answer does to it, and when its time counts again."""

from __future__ import annotations

from msgspec.structs import replace

from foregate.evidence.state.task import OpenTurn, TaskState
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, TurnJudged
from foregate.schemas.event_body import ToolStarted
from foregate.schemas.judgement import Need
from foregate.schemas.model_response import Usage
from foregate.schemas.question import AskedQuestion, PlanAnswer
from foregate.schemas.task_plan import PlanConfirmed, PlanStepChanged

_ABOUT_PLANS = "task_plan"
"""What asks whether, and how, a plan may run."""
_GOES_ON = (TurnJudged, ModelResponded, ToolStarted, PlanConfirmed, PlanStepChanged)
"""Events of a task that goes on."""


def waits_for_person(task: TaskState | None, turn: OpenTurn | None, question: AskedQuestion | None) -> bool:
    """Whether the task in hand waits for a person, or has their answer and was not resumed since."""
    if task is None:
        return False
    if question is not None or task.plan_answer is not None or task.paused == "awaiting_approval":
        return True
    asking = turn and (turn.sandbox or turn)
    answered = asking is not None and any(answer.who == "person" for answer in asking.answers)
    return answered and turn is not None and (turn.sandbox is not None or turn.judgement is None)


def begin_waiting(task: TaskState, time: str, need: Need) -> None:
    """Take in that a question was asked: one to a person stops the clock, one about a plan says which plan waits."""
    if need.who != "person":
        return
    task.active, task.paused = task.count_active_seconds(time), "awaiting_approval"
    task.plan_answer = None
    if need.gate == _ABOUT_PLANS and not task.running_plan and need.digests:
        # One from a file was proposed before its task began.
        task.proposed_plan = need.digests[0]


def take_answer(task: TaskState, time: str, body: NeedAnswered, question: AskedQuestion | None) -> None:
    """Take in the answer to a question; one about a plan is kept until something was done about it."""
    answer = body.answer
    if answer.who != "person":
        usage, rounds = body.usage or Usage(), int(answer.who == "critic")
        tokens = usage.input_tokens + usage.output_tokens
        task.add_counts(safety_calls=body.model_calls, safety_rounds=rounds, tokens=tokens, cost=usage.cost)
    if task.paused:
        task.paused, task.since = "", time
    # The process that asked may be gone by now.
    if body.elsewhere:
        task.since = ""
    if answer.gate == "loop" and answer.value is not None:
        task.after_turn = (answer.choice, answer.words)
    if answer.gate == _ABOUT_PLANS and question is not None:
        task.plan_answer = PlanAnswer(answer, question.raised.request)
    task.grants.extend(replace(grant, seq=answer.seq) for grant in body.grants or ())


def start_clock(task: TaskState, event: Event) -> None:
    """Count the time of a task whose question was answered elsewhere again from an event by which it goes on."""
    if isinstance(event.body, _GOES_ON):
        task.since = event.time

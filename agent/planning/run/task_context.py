"""What the execution model is shown of a plan when it fills in a task: who asked, what came of earlier tasks, the task.

Everything is built from the log and kept under its hash before it is sent, so that the log proves what was shown.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from foregate.agent.planning.ask.asking import AGAIN, FILL_IN
from foregate.agent.planning.format.configuration import Configuration, FormattingSection
from foregate.agent.session.compression import get_measure, plan_compression
from foregate.agent.session.elide_results import build_result, format_errors, format_result
from foregate.agent.session.session import Session
from foregate.evidence.state.conversation import (
    CAME,
    Conversation,
    format_object,
    format_refusal,
    format_unknown_outcome,
)
from foregate.evidence.state.plan import CallState, Ended, PlanState, StepState
from foregate.policy.policy import Context
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, ToolFinished
from foregate.schemas.message import Message, write_messages
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import FillRequest, PlanTask
from foregate.schemas.tool_spec import Catalogue


async def build_fill_request(
    session: Session, state: PlanState, step: StepState, shape: Configuration, model: str, why: str
) -> FillRequest:
    """Return what an event says of the request to fill in a task: our words, the task, and the hash of all of it.

    `why` says what was wrong with the first answer. Where earlier results did not fit, `context` says what was done.
    """
    notice, told = AGAIN if why else FILL_IN, _describe_task(state, step.task, why)
    talk, vital, section = build_conversation(session, state, step, shape)
    talk.add_message(Message("user", format_object({"foregate": {"notice": notice}, **told})))
    body = plan_compression(talk, session.state.describe_open_trouble, section, lambda: get_measure(model), vital)
    if body is not None:
        talk.compress(body)
    kept = session.blobs.put(write_messages(talk.messages))
    return FillRequest(notice=notice, about=told, request=kept, context=body)


def build_conversation(
    session: Session, state: PlanState, step: StepState, shape: Configuration
) -> tuple[Conversation, set[int], Context]:
    """Return the conversation up to the task itself, the places that must stay in it, and how much of it may stay.

    What came of each earlier task is one exchange in it, so that tasks stay or go as a whole.
    """
    started, task = session.state.started, session.state.task
    assert started is not None
    assert task is not None
    first, *later = task.messages
    talk, vital, own = Conversation(), set(), step.task.id
    talk.add_message(Message("system", started.system))
    talk.add_message(Message("user", first.text), by_user=True)
    for number in sorted(state.steps, key=lambda number: (number == own, number)):
        begin, told = len(talk.messages), state.steps[number]
        for message in _render_exchange(state, told, session.catalogue, shape.formatting) if told.heard else ():
            talk.add_message(message)
        vital |= set(range(begin, len(talk.messages))) if number in (*step.task.depends_on, own) else set()
    for said in later:
        vital.add(len(talk.messages))
        talk.add_message(Message("user", said.text), by_user=True)
    kept = shape.context
    context = Context(
        max_tokens=kept.max_tokens,
        strategy=kept.compression_strategy,
        keep_first=kept.keep_first_tasks + 2,
        keep_last=kept.keep_last_tasks + len(later) + 1 + step.heard,
    )
    return talk, vital, context


def _render_exchange(
    state: PlanState, step: StepState, catalogue: Catalogue, formatting: FormattingSection
) -> list[Message]:
    thoughts = step.thoughts if formatting.include_reasoning else ""
    words = "\n".join(filter(None, (render_task_heading(step.task, len(state.steps)), thoughts, step.words)))
    ended = [(one, one.ended) for one in step.calls if one.ended]
    answers = [Message("tool", render_answer(one, body, catalogue, formatting), call=one.id) for one, body in ended]
    return [Message("assistant", words, tuple(one.call for one, _ in ended)), *answers]


def render_answer(made: CallState, body: Ended, catalogue: Catalogue, formatting: FormattingSection) -> str:
    """Return the answer to a call as the model reads it, its output by the kind of tool and cut to a length."""
    match body:
        case OutcomeUnknown():
            notice = {"foregate": {"notice": f"This call {CAME[made.came]}."}} if made.came else None
            return format_object(notice) if notice else format_unknown_outcome(body)
        case CallAnswered(observed=seen):
            shown = replace(seen, output=formatting.cut(seen.output)) if seen is not None else None
            return format_refusal(replace(body, observed=shown))
        case ToolFinished():
            result, spec = build_result(body), catalogue.get(made.tool)
            cut = formatting.cut(result.content)
            output = format_result(spec, body.target, result, formatting.limit) if spec else cut
            told: dict[str, Json] = {"ok": result.ok, "output": output}
            if made.status == "undone":
                told["foregate"] = {"notice": "What this call did was undone since."}
            return format_object(told)
        case _:
            assert_never(body)


def _describe_task(state: PlanState, task: PlanTask, why: str) -> dict[str, Json]:
    told: dict[str, Json] = {
        "goal": state.current_plan.goal,
        "task": task.id,
        "action": task.action,
        "target": task.target,
        "reason": task.reason,
        "expected_outcome": task.expected_outcome,
        "params": dict(task.params),
        "not_done": _describe_undone_tasks(state),
        "why": why,
    }
    return {"task": {key: value for key, value in told.items() if value}}


def _describe_undone_tasks(state: PlanState) -> list[Json]:
    return [
        {"task": number, "status": step.status, "why": format_errors([step.reason, *_describe_open_calls(step)])}
        for number, step in state.steps.items()
        if step.status in ("failed", "skipped", "aborted")
    ]


def _describe_open_calls(step: StepState) -> list[str]:
    wrong = [call for call in step.calls if call.status in ("failed", "held", "denied", "unknown")]
    return [f"{call.tool} {call.target} {call.status}: {call.why}" for call in wrong if call.why != step.reason]


def render_task_heading(task: PlanTask, count: int) -> str:
    """Return what a task says of itself before its calls."""
    return f"Task {task.id} of {count} of the confirmed plan: {task.reason or task.action or 'as listed'}"

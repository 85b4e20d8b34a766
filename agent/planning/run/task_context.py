"""What the execution model is shown of a plan when it fills in a task: who asked, what came of earlier tasks, the task.

Everything is built from the log and kept under its hash before it is sent, so that the log proves what was shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from msgspec.structs import replace

from foregate.agent.planning.ask.prompts import AGAIN, FILL_IN
from foregate.agent.planning.format.configuration import Configuration, FormattingSection
from foregate.agent.session.compression import compressed
from foregate.agent.session.elide_results import errors_text, recorded_result, result_text
from foregate.agent.session.session import Session
from foregate.agent.session.tokenizer import measure_for
from foregate.evidence.state.conversation import Conversation
from foregate.evidence.state.plan import PlanState, StepState
from foregate.evidence.state.transcript import CAME, object_text, refused, unknown
from foregate.evidence.state.truncate import cut
from foregate.policy.policy import Context
from foregate.schemas.call_events import CallAnswered, EffectUndone, OutcomeResolved, OutcomeUnknown, ToolFinished
from foregate.schemas.event import Event
from foregate.schemas.kept_messages import write_messages
from foregate.schemas.message import Message
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.plan_events import FillRequest, PlanProposed, PlanStepChanged
from foregate.schemas.response_events import ModelResponded
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import PlanTask
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec

Ended: TypeAlias = ToolFinished | CallAnswered | OutcomeUnknown
"""What ends a call for now."""


@dataclass(slots=True)
class Talk:
    """What was said and called for one task, with what ended each call.

    `came` says what came of calls whose outcome was unknown first; `undone` are the calls taken back.
    """

    words: str = ""
    thoughts: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    ended: dict[str, Ended] = field(default_factory=dict)
    came: dict[str, str] = field(default_factory=dict)
    undone: set[str] = field(default_factory=set)


async def request_for(
    session: Session, state: PlanState, step: StepState, shape: Configuration, model: str, why: str
) -> FillRequest:
    """Return what an event says of the request to fill in a task: our words, the task, and the hash of all of it.

    `why` says what was wrong with the first answer. Where earlier results did not fit, `context` says what was done.
    """
    notice, told = AGAIN if why else FILL_IN, about(state, step.task, why)
    events = await session.log.read()
    talk, vital, section = conversation(session, state, step, shape, talks(events, state))
    talk.add(Message("user", object_text({"foregate": {"notice": notice}, **told})))
    body = compressed(talk, session.state.still_open, section, lambda: measure_for(model), vital)
    if body is not None:
        talk.compress(body)
    kept = session.blobs.put(write_messages(talk.messages))
    return FillRequest(notice=notice, about=told, request=kept, context=body)


def conversation(
    session: Session, state: PlanState, step: StepState, shape: Configuration, talked: Mapping[int, Talk]
) -> tuple[Conversation, set[int], Context]:
    """Return the conversation up to the task itself, the places that must stay in it, and how much of it may stay.

    What came of each earlier task is one exchange in it, so that tasks stay or go as a whole.
    """
    started, task = session.state.started, session.state.task
    assert started is not None
    assert task is not None
    first, *later = task.messages
    talk, vital = Conversation(), set()
    talk.add(Message("system", started.system))
    talk.add(Message("user", first.text), by_user=True)
    needed = {*step.task.depends_on, step.task.id}
    for number in sorted(talked, key=lambda number: (number == step.task.id, number)):
        begin = len(talk.messages)
        for message in exchange(state, talked[number], number, session.catalogue, shape.formatting):
            talk.add(message)
        vital |= set(range(begin, len(talk.messages))) if number in needed else set()
    for said in later:
        vital.add(len(talk.messages))
        talk.add(Message("user", said.text), by_user=True)
    kept = shape.context
    after = len(later) + 1 + (step.task.id in talked)
    return (
        talk,
        vital,
        Context(
            max_tokens=kept.max_tokens,
            strategy=kept.compression_strategy,
            keep_first=kept.keep_first_tasks + 2,
            keep_last=kept.keep_last_tasks + after,
        ),
    )


def talks(events: Iterable[Event], state: PlanState) -> dict[int, Talk]:
    """Return what was said and called for each task of the plan, by its number."""
    owner = {call: number for number, step in state.steps.items() for call in step_calls(step)}
    found: dict[int, Talk] = {}
    current = 0
    for event in events:
        match event.body:
            case PlanProposed():
                found, current = {}, 0
            case PlanStepChanged(plan=state.digest, step=number, status=status):
                current = number if status == "running" else 0 if number == current else current
            case ModelResponded(response=response, places=places):
                hear(found, response, owner, current, planned=places is not None)
            case ToolFinished() | CallAnswered() | OutcomeUnknown() as body if body.call in owner:
                found[owner[body.call]].ended[body.call] = body
            case OutcomeResolved(call=call, outcome=outcome) if call in owner:
                found[owner[call]].came[call] = CAME[outcome]
            case EffectUndone(call=call) if call in owner:
                found[owner[call]].undone.add(call)
            case _:
                pass
    return found


def hear(
    found: dict[int, Talk], response: ModelResponse, owner: Mapping[str, int], current: int, *, planned: bool
) -> None:
    """Take in a response, made for the tasks its calls belong to, or for the current one where it has none."""
    calls = [call for call in response.calls if call.id in owner]
    for call in calls:
        found.setdefault(owner[call.id], Talk()).calls.append(call)
    number = owner[calls[0].id] if calls else current
    if number and not planned:
        talk = found.setdefault(number, Talk())
        talk.words, talk.thoughts = response.text, response.reasoning


def step_calls(step: StepState) -> Sequence[str]:
    """Return the ids of the calls made for a task."""
    return [call.id for call in step.calls]


def exchange(
    state: PlanState, talk: Talk, number: int, catalogue: Mapping[str, ToolSpec], formatting: FormattingSection
) -> list[Message]:
    """Return what came of a task: what was said and called, and an answer to each call."""
    thoughts = talk.thoughts if formatting.include_reasoning else ""
    parts = (said(state.steps[number].task, len(state.steps)), thoughts, talk.words)
    made = tuple(call for call in talk.calls if call.id in talk.ended)
    answers = [
        Message("tool", answer(talk.ended[call.id], call, talk, catalogue, longest(formatting)), call=call.id)
        for call in made
    ]
    return [Message("assistant", "\n".join(part for part in parts if part), made), *answers]


def answer(body: Ended, call: ToolCall, talk: Talk, catalogue: Mapping[str, ToolSpec], limit: int) -> str:
    """Return the answer to a call as the model reads it, its output by the kind of tool and within `limit`."""
    match body:
        case OutcomeUnknown():
            came = talk.came.get(call.id)
            return object_text({"foregate": {"notice": f"This call {came}."}}) if came else unknown(body)
        case CallAnswered(observed=seen):
            shown = replace(seen, output=within(seen.output, limit)) if seen is not None else None
            return refused(replace(body, observed=shown))
        case ToolFinished():
            result, spec = recorded_result(body), catalogue.get(call.name)
            text = result_text(spec, body.target, result, limit) if spec else within(result.content, limit)
            told: dict[str, Json] = {"ok": result.ok, "output": text}
            if call.id in talk.undone:
                told["foregate"] = {"notice": "What this call did was undone since."}
            return object_text(told)
        case _:
            assert_never(body)


def about(state: PlanState, task: PlanTask, why: str) -> dict[str, Json]:
    """Return the task in the plan's own words, with the earlier tasks that did not come to what they are for."""
    told: dict[str, Json] = {
        key: value
        for key, value in (
            ("goal", state.known.goal),
            ("task", task.id),
            ("action", task.action),
            ("target", task.target),
            ("reason", task.reason),
            ("expected_outcome", task.expected_outcome),
            ("params", dict(task.params)),
            ("not_done", not_done(state)),
            ("why", why),
        )
        if value
    }
    return {"task": told}


def not_done(state: PlanState) -> list[Json]:
    """Return the tasks that ended without having been done, each with everything that was in the way."""
    return [
        {"task": number, "status": step.status, "why": errors_text([step.reason, *open_calls(step)])}
        for number, step in state.steps.items()
        if step.status in ("failed", "skipped", "aborted")
    ]


def open_calls(step: StepState) -> list[str]:
    """Return why calls of a task that failed are not done."""
    wrong = [call for call in step.calls if call.status in ("failed", "held", "denied", "unknown")]
    return [f"{call.tool} {call.target} {call.status}: {call.why}" for call in wrong if call.why != step.reason]


def said(task: PlanTask, count: int) -> str:
    """Return what a task says of itself before its calls."""
    return f"Task {task.id} of {count} of the confirmed plan: {task.reason or task.action or 'as listed'}"


def longest(formatting: FormattingSection) -> int:
    """Return the characters of one output that are shown, 0 for all."""
    return formatting.max_content_length if formatting.truncate_large_outputs else 0


def within(text: str, limit: int) -> str:
    """Return a text cut to `limit` characters, uncut for 0."""
    return cut(text, limit)[0] if limit else text

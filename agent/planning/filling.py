"""Having the execution model fill in the calls of a task, in native calls or JSON, and showing it earlier outcomes."""

from __future__ import annotations

import re
from collections.abc import Collection, Container
from functools import partial
from typing import assert_never

from msgspec.structs import replace

from foregate.agent.dialects.dialect import Names
from foregate.agent.dialects.foreign_calls import take_response
from foregate.agent.dialects.json_dialect import parse_text
from foregate.agent.loop.asking import describe_open_trouble
from foregate.agent.loop.executor import RUNTIME_LOST
from foregate.agent.planning.asking import AGAIN, FILL_IN
from foregate.agent.planning.configuration import Configuration, FormattingSection
from foregate.agent.session.compression import (
    build_result,
    format_errors,
    format_result,
    get_measure,
    plan_compression,
    strip_thoughts,
)
from foregate.agent.session.session import Session
from foregate.evidence.state.conversation import (
    CAME,
    Conversation,
    format_object,
    format_refusal,
    format_unknown_outcome,
)
from foregate.evidence.state.plan import NOT_DONE, CallState, Ended, PlanState, StepState
from foregate.policy.policy import Context, Policy
from foregate.policy.risk.claims import find_promise
from foregate.schemas.errors import LogError, ModelError
from foregate.schemas.event import Draft, ModelResponded
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, ToolFinished
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.message import Message, ModelRequest, read_messages, write_messages
from foregate.schemas.model_response import ModelResponse, WireMessage, read_fields, write_fields
from foregate.schemas.protocols import Model
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import FillRequest, PlanTask
from foregate.schemas.tool_spec import Catalogue, find_nearest_tool

RESENT = 2
"""Times one call is sent in an attempt: a hold whose remedy was performed, or whose question was answered, is cured."""

FILLED_IN = 2
"""Times a task is filled in, in an attempt: once more with the reason."""

ENDING = {"denied_by_rule": "was denied by a rule", RUNTIME_LOST: "lost the runtime its tools run in"}
"""Codes of calls that end the whole plan, and how the report names them."""

_LOOKED = "nothing but looks so far; send the call that makes the change now"
_NO_CALL = "the answer held no call that could be read, of a tool that was offered"
# "```json\n{}\n```".
_EMPTY = compile_late(r"""(?:```(?:json)?|[\s\[\]{}.])*(?:"(?:args|arguments|parameters|input)"\s*:.*)?""", re.DOTALL)
"""An answer that says nothing: marks alone, or arguments without the name of a tool."""
_LONGEST = 240
_OFFERED = "call `{}`, which the plan names, or set `validation.allow_tool_fallback: true` to offer all"
"""What to do about the call of another tool than the task names: for the model, and for who reads why a task failed."""


async def ask_for_calls(session: Session, model: Model, step: StepState, configuration: Configuration) -> str:
    """Ask for the calls of the task in hand and record the answer; return why it holds no calls, "" where it does.

    What is sent is what the log keeps for the task; what the model thought aloud is kept apart. Offered are the tools
    that only look and the one the task's action names, or under `validation.allow_tool_fallback` all. An answer whose
    calls cannot be used counts as one without calls; its event says why under `refused`.
    """
    any_tool, wanted = configuration.validation.allow_tool_fallback, configuration.models.execution
    bounds = session.policy.limits.calls_per_response, configuration.execution.max_calls_per_task
    room = min(bound for bound in bounds if bound) - sum(step.sent.values())
    offered = {
        name: spec
        for name, spec in session.catalogue.items()
        if any_tool or name == step.task.action or not spec.effect.changes
    }
    try:
        messages, tools = read_messages(session.blobs.get(step.request)), tuple(offered.values())
        asked = ModelRequest(messages, tools, temperature=wanted.temperature, max_tokens=wanted.max_tokens)
        response = strip_thoughts(await model.respond(asked, session.on_text))
    except (ModelError, LogError) as error:
        return str(error)
    if response.finish_reason == "length":
        response = replace(response, calls=())
    elif not response.calls or (response.calls[0].defect and not response.calls[0].wire_id):
        # Elsewhere a call in the text is refused: what the model wrote is then in that call.
        written = response.calls[0].raw if response.calls else response.text
        found = parse_text(written, frozenset(offered))
        if found.calls:
            response = replace(response, calls=found.calls, text=found.text)
        response = take_response(response, tools, Names.from_json(configuration.dialect.model_dump(exclude={"name"})))
    if why := find_refusal(response, offered, max(0, room), step.effects, "" if any_tool else step.task.action):
        response = replace(response, calls=(), notes=(*response.notes, why))
    stamped = response.stamp_calls(session.state.seq + 1)
    await session.record(Draft(ModelResponded.of(stamped, refused=why), "model"))
    return ""


def find_refusal(
    response: ModelResponse, offered: Collection[str], room: int, done: Container[str], action: str = ""
) -> str:
    """Return why the calls of an answer, `room` of them at most, are refused, "" where they are not.

    All are refused or none: half of what somebody meant is something else. Calls whose digest is in `done` took
    effect for this task already. `action` is what the task names, "" where every tool was offered.
    """
    calls, why = response.calls, ""
    strange = sorted({call.name for call in calls if call.name not in offered})
    again = sorted({call.name for call in calls if call.digest in done})
    if response.deferred:
        why = "calls that name each other's results; send the first, and the others once you know what it gave"
    elif unread := next((call.defect for call in calls if call.defect and call.name not in offered), ""):
        why = unread
    elif strange:
        near = sorted({near for name in strange if (near := find_nearest_tool(name, offered))})
        meant = f"; did you mean {', '.join(f'`{name}`' for name in near)}?" if near else ""
        why = f"calls of tools this task was not offered: {', '.join(strange)}{meant}"
        if action in offered:
            why = f"{why[: _LONGEST // 2]}; {_OFFERED.format(action)}"
    elif len(calls) > room:
        why = f"{len(calls)} calls, and a task may have {room} more; send fewer"
    elif again:
        why = f"calls that took effect already, exactly as they are: {', '.join(again)}; send what is left, or say so"
    return why[:_LONGEST]


def may_go_again(call: CallState, step: StepState) -> bool:
    """Whether a call has done what it is for, or what held it is cured and it may be sent again."""
    cured = call.cured or call.code == "uncertainty_clarification"
    return call.is_settled or call.code == NOT_DONE or (cured and step.sent.get(call.position, 0) < RESENT)


def find_lack(step: StepState, catalogue: Catalogue, policy: Policy) -> str:
    """Return what an answer, all of whose calls ran well, lacks to fulfil its task, "" where nothing.

    A task that names a tool that changes something wants a change, and words only where some of it was done before;
    any other is fulfilled by looks or by words, but by none that only promise or say nothing.
    """

    def changes(tool: str) -> bool:
        return tool in catalogue and catalogue[tool].effect.changes

    if step.refused or not (step.newest_calls or step.words.strip()):
        return step.refused or _NO_CALL
    idle = _EMPTY.fullmatch(step.words) or find_promise(step.words, policy)
    if idle and not (step.newest_calls or step.effects):
        return _NO_CALL
    if not changes(step.task.action) or any(changes(call.tool) for call in step.newest_calls):
        return ""
    return _LOOKED if step.newest_calls else "" if step.effects else _NO_CALL


async def build_fill_request(
    session: Session, state: PlanState, step: StepState, shape: Configuration, model: str, why: str
) -> FillRequest:
    """Return what an event says of the request to fill in a task: our words, the task, and the hash of all of it.

    `why` says what was wrong with the first answer. Where earlier results did not fit, `context` says what was done.
    """
    notice, told = AGAIN if why else FILL_IN, _describe_task(state, step.task, why)
    talk, vital, section = build_conversation(session, state, step, shape)
    talk.add_message(Message("user", format_object({"foregate": {"notice": notice}, **told})))
    body = plan_compression(
        talk, partial(describe_open_trouble, session.state), section, lambda: get_measure(model), vital
    )
    if body is not None:
        talk.compress(body)
    kept = session.blobs.put(write_messages(talk.messages))
    return FillRequest(notice=notice, about=told, request=kept, context=body)


def build_conversation(
    session: Session, state: PlanState, step: StepState, shape: Configuration
) -> tuple[Conversation, set[int], Context]:
    """Return the conversation up to the task itself, the places that must stay in it, and how much of it may stay.

    The outcome of each earlier task is one exchange in it, so that tasks stay or go as a whole.
    """
    started, task = session.state.started, session.state.running_task
    assert started is not None
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
    return [Message("assistant", words, tuple(one.call for one, _ in ended), wire=_join_wire(step)), *answers]


def _join_wire(step: StepState) -> WireMessage | None:
    """Return what only its endpoint understands of an exchange: of each call, and of the newest response."""
    if step.wire is None:
        return None
    fields = {name: value for name, value in read_fields(step.wire.fields).items() if name != "content"}
    own = tuple(one.own for one in step.calls if one.ended)
    return WireMessage(step.wire.endpoint, write_fields(fields), own if any(own) else ())


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

"""Having the execution model fill in the calls of a task, in native calls or JSON, and what came of them."""

from __future__ import annotations

from collections.abc import Container

from msgspec.structs import replace

from foregate.agent.dialects.json.dialect import parse_text
from foregate.agent.effects.executor import RUNTIME_LOST
from foregate.agent.planning.format.configuration import Configuration
from foregate.agent.session.session import Session
from foregate.agent.session.thinking import strip_thoughts
from foregate.evidence.state.plan import NOT_DONE, CallState, StepState
from foregate.schemas.errors import LogError, ModelError
from foregate.schemas.event import Draft, ModelResponded
from foregate.schemas.message import ModelRequest, read_messages
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Model
from foregate.schemas.tool_spec import Catalogue

RESENT = 2
"""Times one call is sent in an attempt: a hold whose remedy was performed, or whose question was answered, is cured."""

FILLED_IN = 2
"""Times a task is filled in, in an attempt: once more with the reason."""

ENDING = {"denied_by_rule": "was denied by a rule", RUNTIME_LOST: "lost the runtime its tools run in"}
"""Codes of calls that end the whole plan, and how the report names them."""

_LOOKED = "nothing but looks so far; send the call that makes the change now"
_NO_CALL = "the answer held no call that could be read, of a tool that was offered"
_LONGEST = 200


async def ask_for_calls(session: Session, model: Model, step: StepState, configuration: Configuration) -> str:
    """Ask for the calls of the task in hand and record the answer; return why there is none, "" where there is.

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
    elif not response.calls:
        found = parse_text(response.text, frozenset(offered))
        response = replace(response, calls=found.calls, text=found.text if found.calls else response.text)
    if why := find_refusal(response, offered, max(0, room), step.effects):
        response = replace(response, calls=(), notes=(*response.notes, why))
    stamped = response.stamp_calls(session.state.seq + 1)
    await session.record(Draft(ModelResponded.of(stamped, refused=why), "model"))
    return ""


def find_refusal(response: ModelResponse, offered: Container[str], room: int, done: Container[str]) -> str:
    """Return why the calls of an answer, `room` of them at most, are refused, "" where they are not.

    All are refused or none: half of what somebody meant is something else. Calls whose digest is in `done` took
    effect for this task already.
    """
    calls, why = response.calls, ""
    strange = sorted({call.name for call in calls if call.name not in offered})
    again = sorted({call.name for call in calls if call.digest in done})
    if response.deferred:
        why = "calls that name each other's results; send the first, and the others once you know what it gave"
    elif strange:
        why = f"calls of tools this task was not offered: {', '.join(strange)}"
    elif len(calls) > room:
        why = f"{len(calls)} calls, and a task may have {room} more; send fewer"
    elif again:
        why = f"calls that took effect already, exactly as they are: {', '.join(again)}; send what is left, or say so"
    return why[:_LONGEST]


def may_go_again(call: CallState, step: StepState) -> bool:
    """Whether a call has done what it is for, or what held it is cured and it may be sent again."""
    cured = call.cured or call.code == "uncertainty_clarification"
    return call.is_settled or call.code == NOT_DONE or (cured and step.sent.get(call.position, 0) < RESENT)


def lacking(step: StepState, catalogue: Catalogue) -> str:
    """Return what an answer, all of whose calls ran well, lacks to fulfil its task, "" where it does.

    A task that names a tool that changes something wants a change, and words only where some of it was done before;
    any other is fulfilled by looks or by words.
    """

    def changes(tool: str) -> bool:
        return tool in catalogue and catalogue[tool].effect.changes

    if step.refused or not (step.newest_calls or step.words.strip()):
        return step.refused or _NO_CALL
    if not changes(step.task.action) or any(changes(call.tool) for call in step.newest_calls):
        return ""
    return _LOOKED if step.newest_calls else "" if step.effects else _NO_CALL

"""Having the execution model fill in the calls of a task: native calls, or JSON in its text."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from foregate.agent.context.thinking import apart
from foregate.agent.planning.configuration import Configuration
from foregate.agent.planning.fill_answer import room, usable
from foregate.agent.planning.plan_state import StepState
from foregate.agent.planning.task_context import read_again
from foregate.agent.session import Session
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, LogError, ModelError
from foregate.schemas.event import Draft
from foregate.schemas.message import ModelRequest
from foregate.schemas.protocols import Model
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall

_NAMES = ("tool", "tool_name", "name")
_ARGUMENTS = ("arguments", "args", "parameters")
_LISTS = ("calls", "tool_calls", "actions")
_FENCE = "```"


async def ask_for_calls(session: Session, model: Model, step: StepState, configuration: Configuration) -> str:
    """Ask for the calls of the task in hand and record the answer; return why there is none, "" where there is.

    What is sent is what the log keeps for the task; what the model thought aloud is kept apart. Offered are the tools
    that only look and the one the task's action names, or under `validation.allow_tool_fallback` all. An answer whose
    calls cannot be used counts as one without calls; its event says why under `refused`.
    """
    action, any_tool = step.task.action, configuration.validation.allow_tool_fallback
    wanted = configuration.models.execution
    bounds = session.policy.limits.calls_per_response, configuration.execution.max_calls_per_task
    most = min(bound for bound in bounds if bound)
    offered = tuple(
        spec for spec in session.catalogue.values() if any_tool or spec.name == action or not spec.effect.changes
    )
    try:
        messages = read_again(session.blobs.get(step.request))
        asked = ModelRequest(messages, offered, temperature=wanted.temperature, max_tokens=wanted.max_tokens)
        response = await model.respond(asked, session.on_text)
    except (ModelError, LogError) as error:
        return str(error)
    thoughts, text = apart(response.text)
    if thoughts:
        response = replace(response, text=text, reasoning=f"{response.reasoning}\n{thoughts}".strip())
    if response.finish_reason == "length":
        response = replace(response, calls=())
    elif not response.calls:
        response = replace(response, calls=calls_in(response.text))
    response, why = usable(response, {spec.name for spec in offered}, room(step, most), step.effects)
    body = response.stamped(session.state.seq + 1).to_json()
    await session.record(Draft("model_response", "model", {**body, "refused": why} if why else body))
    return ""


def calls_in(text: str) -> tuple[ToolCall, ...]:
    """Return the calls a text holds as JSON: one or a list, bare or in a code fence; none where it holds no such."""
    for part in parts(text):
        try:
            value = strict_json.parse(part)
        except InvalidJson:
            continue
        found = [call_of(entry) for entry in listed(value)]
        if found and all(found):
            return tuple(call for call in found if call is not None)
    return ()


def parts(text: str) -> Iterator[str]:
    """Yield the whole text, then what stands in its code fences."""
    yield text.strip()
    pieces = text.split(_FENCE)
    for piece in pieces[1::2]:
        first, newline, rest = piece.partition("\n")
        yield (rest if newline and first.strip().isalpha() else piece).strip()


def listed(value: Json) -> list[Json]:
    """Return the entries of one call, of a list of calls, or of an object that holds such a list."""
    if isinstance(value, dict):
        inner = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
        return inner if isinstance(inner, list) else [value]
    return value if isinstance(value, list) else []


def call_of(entry: Json) -> ToolCall | None:
    """Return the call an entry describes, None when it describes none."""
    if not isinstance(entry, dict):
        return None
    inner = entry.get("function")
    entry = inner if isinstance(inner, dict) else entry
    name = next((entry[key] for key in _NAMES if isinstance(entry.get(key), str)), None)
    arguments = next((entry[key] for key in _ARGUMENTS if key in entry), None)
    if name is None or arguments is None:
        return None
    if isinstance(arguments, str):
        return ToolCall.parse(name, arguments)
    return ToolCall.of(name, arguments) if isinstance(arguments, dict) else None

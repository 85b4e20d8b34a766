"""Having the execution model fill in the calls of a task: native calls, or JSON in its text."""

from __future__ import annotations

from msgspec.structs import replace

from foregate.agent.dialects.json.reader import read
from foregate.agent.planning.format.configuration import Configuration
from foregate.agent.planning.run.fill_answer import room, usable
from foregate.agent.session.session import Session
from foregate.agent.session.thinking import without_thoughts
from foregate.evidence.state.plan import StepState
from foregate.schemas.errors import LogError, ModelError
from foregate.schemas.event import Draft
from foregate.schemas.kept_messages import read_messages
from foregate.schemas.message import ModelRequest
from foregate.schemas.protocols import Model
from foregate.schemas.response_events import ModelResponded


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
        messages = read_messages(session.blobs.get(step.request))
        asked = ModelRequest(messages, offered, temperature=wanted.temperature, max_tokens=wanted.max_tokens)
        response = without_thoughts(await model.respond(asked, session.on_text))
    except (ModelError, LogError) as error:
        return str(error)
    if response.finish_reason == "length":
        response = replace(response, calls=())
    elif not response.calls:
        found = read(response.text, frozenset(spec.name for spec in offered))
        response = replace(response, calls=found.calls, text=found.text if found.calls else response.text)
    response, why = usable(response, {spec.name for spec in offered}, room(step, most), step.effects)
    stamped = response.stamped(session.state.seq + 1)
    await session.record(Draft(ModelResponded.of(stamped, refused=why), "model"))
    return ""

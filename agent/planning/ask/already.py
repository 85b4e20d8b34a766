"""What a task has looked at, done and been held for before somebody thought of a plan: data for the planner."""

from __future__ import annotations

from foregate.agent.planning.format.configuration import Configuration
from foregate.agent.session.session import Session
from foregate.evidence.state.truncate import truncate_text
from foregate.schemas.event import ModelResponded
from foregate.schemas.event_body import CallAnswered, TaskStarted, ToolFinished, UserMessage
from foregate.schemas.strict_json import Json

_NEWEST = 12
"""Outputs, changes and held calls that are told, the newest of each."""


async def collect_prior_work(session: Session, configuration: Configuration) -> Json:
    """Return what the open task did so far, None where it did nothing."""
    most = configuration.formatting.max_content_length
    calls: dict[str, dict[str, Json]] = {}
    said: list[Json] = []
    looked: list[Json] = []
    done: list[Json] = []
    held: list[Json] = []
    for event in await session.log.read():
        match event.body:
            case TaskStarted():
                calls, said, looked, done, held = {}, [], [], [], []
            case UserMessage(text=text):
                said.append(text)
            case ModelResponded(calls=made):
                calls |= {
                    one.id: {"tool": one.name, "arguments": truncate_text(one.arguments, most)[0]} for one in made
                }
            case ToolFinished(call=call, ok=True) as body if call in calls:
                spec = session.catalogue.get(body.tool)
                if body.changes or spec is None or spec.effect.changes:
                    done.append(calls[call])
                else:
                    looked.append({**calls[call], "output": truncate_text(body.content, most)[0]})
            case CallAnswered(call=call, code="plan_required") if call in calls:
                held.append(calls[call])
            case _:
                pass
    told = {"said_before": said[:-1], "looked_at": looked[-_NEWEST:], "done": done[-_NEWEST:], "held": held[-_NEWEST:]}
    return {name: entries for name, entries in told.items() if entries} or None

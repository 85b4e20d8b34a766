"""What a task has looked at, done and been held for before somebody thought of a plan: data for the planner."""

from __future__ import annotations

from foregate.agent.context.cut import cut
from foregate.agent.planning.configuration import Configuration
from foregate.agent.session import Session
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.strict_json import Json

_NEWEST = 12
"""Outputs, changes and held calls that are told, the newest of each."""


async def already(session: Session, configuration: Configuration) -> Json:
    """Return what the open task did so far, None where it did nothing."""
    most = configuration.formatting.max_content_length
    calls: dict[str, dict[str, Json]] = {}
    said: list[Json] = []
    looked: list[Json] = []
    done: list[Json] = []
    held: list[Json] = []
    for event in await session.log.read(session.lease.session):
        body = event.body
        match event.kind:
            case "task_started":
                calls, said, looked, done, held = {}, [], [], [], []
            case "user_message":
                said.append(body["text"])
            case "model_response":
                for call in ModelResponse.from_json(body).calls:
                    calls[call.id] = {"tool": call.name, "arguments": cut(call.raw, most)[0]}
            case "tool_finished" if body["ok"] and body["call"] in calls:
                spec = session.catalogue.get(body["tool"])
                if body["changes"] or spec is None or spec.effect.changes:
                    done.append(calls[body["call"]])
                else:
                    looked.append({**calls[body["call"]], "output": cut(body["content"], most)[0]})
            case "call_answered" if body["code"] == "plan_required" and body["call"] in calls:
                held.append(calls[body["call"]])
    told = {"said_before": said[:-1], "looked_at": looked[-_NEWEST:], "done": done[-_NEWEST:], "held": held[-_NEWEST:]}
    return {name: entries for name, entries in told.items() if entries} or None

"""What an event that is no message comes to in words, for the steps of a trajectory."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.agent.transcript import CAME
from foregate.schemas.event import Event
from foregate.schemas.strict_json import Json


def sentence(event: Event) -> str:
    """Return one sentence; where the event says something to the model, what it says."""
    body = event.body
    match event.kind:
        case "outcome_resolved":
            return f"The outcome of the call to `{body['tool']}` is now known: it {CAME[body['outcome']]}."
        case "effect_undone":
            return f"The change made by `{body['tool']}` to {', '.join(body['resources'])} was undone."
        case "context_compressed":
            count = sum(end - start for start, end in body["left_out"])
            return f"From here on the model is not sent {count} earlier messages ({body['strategy']})."
        case "plan_proposed":
            return f"A plan was proposed: {body['proposal'].get('goal', '')}"
        case "plan_confirmed":
            seen = "a person saw the sheet" if body.get("approved") else "nobody saw the sheet"
            return f"The plan was confirmed ({seen}{', dry run' if body.get('dry_run') else ''})."
        case "plan_step_changed":
            if body.get("ask"):
                return str(body["ask"]["notice"])
            return f"A person chose `{body['choice']}` after task {body['step']} failed."
        case "task_ended":
            note = str(body["note"])
            return f"The task ended: {body['status']}{f' ({note})' if note else ''}."
        case "catalog_changed":
            return "The tools changed."
    switches = switched(body)
    return f"The policy or a switch changed{': ' if switches else ''}{switches}."


def switched(body: Mapping[str, Json]) -> str:
    """Return the switches an event sets, "" for none."""
    switches = [f"{name} {'on' if body[name] else 'off'}" for name in ("auto", "dry_run") if name in body]
    switches += [f"{name} {body[name]}" for name in ("mode", "dialect") if name in body]
    return ", ".join(switches)

"""What an event that is no message comes to in words, for the steps of a trajectory."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from foregate.evidence.state.conversation import CAME
from foregate.schemas.event_body import (
    CatalogChanged,
    ContextCompressed,
    EffectUndone,
    OutcomeResolved,
    PolicyChanged,
    SessionStarted,
    TaskEnded,
)
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged

InWords: TypeAlias = (
    OutcomeResolved
    | EffectUndone
    | ContextCompressed
    | PlanProposed
    | PlanConfirmed
    | PlanStepChanged
    | TaskEnded
    | CatalogChanged
    | PolicyChanged
)
"""What is a step of its own and holds no message."""


def describe_event(body: InWords) -> str:
    """Return one sentence; where the event says something to the model, what it says."""
    match body:
        case OutcomeResolved():
            return f"The outcome of the call to `{body.tool}` is now known: it {CAME[body.outcome]}."
        case EffectUndone():
            return f"The change made by `{body.tool}` to {', '.join(body.resources)} was undone."
        case ContextCompressed():
            count = sum(end - start for start, end in body.left_out)
            return f"From here on the model is not sent {count} earlier messages ({body.strategy})."
        case PlanProposed():
            return f"A plan was proposed: {body.proposal.goal}"
        case PlanConfirmed():
            seen = "a person saw the sheet" if body.approved else "nobody saw the sheet"
            return f"The plan was confirmed ({seen}{', dry run' if body.dry_run else ''})."
        case PlanStepChanged():
            if body.ask is not None:
                return body.ask.notice
            return f"A person chose `{body.choice}` after task {body.step} failed."
        case TaskEnded():
            return f"The task ended: {body.status}{f' ({body.note})' if body.note else ''}."
        case CatalogChanged():
            return "The tools changed."
        case PolicyChanged():
            switches = describe_switches(body)
            return f"The policy or a switch changed{': ' if switches else ''}{switches}."
        case _:
            assert_never(body)


def describe_switches(body: SessionStarted | PolicyChanged) -> str:
    """Return the switches an event sets, "" for none."""
    if isinstance(body, SessionStarted):
        return f"dialect {body.dialect}" if body.dialect else ""
    switches = {"auto": body.auto, "dry_run": body.dry_run}
    names = {"mode": body.mode, "dialect": body.dialect}
    found = [f"{name} {'on' if value else 'off'}" for name, value in switches.items() if value is not None]
    return ", ".join([*found, *(f"{name} {value}" for name, value in names.items() if value is not None)])

"""What the model is told of an event. Tool output is always a JSON string inside an object of ours.

Words of Foregate stand under the key `foregate` at the top of that object, where no tool output can reach.
"""

from __future__ import annotations

from collections.abc import Mapping

from foregate.evidence.state.dataflow import Dataflow
from foregate.schemas import strict_json
from foregate.schemas.event import Continuation, Event, ModelResponded, RecordedDataflow, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    EffectUndone,
    KnownOutcome,
    OutcomeResolved,
    OutcomeUnknown,
    SessionStarted,
    TaskPaused,
    ToolFinished,
    UserMessage,
)
from foregate.schemas.message import Message
from foregate.schemas.plan_events import FillRequest, PlanStepChanged
from foregate.schemas.strict_json import Json

CAME: Mapping[KnownOutcome, str] = {"done": "took effect", "not_done": "did not take effect"}
"""What came of a call whose outcome was unknown, in words."""


def build_message(event: Event, answered: bool) -> Message | None:
    """Return the message an event adds to the conversation, or None.

    `answered` tells whether the event answers a call of the response in hand (a runner's own call does not).
    """
    match event.body:
        case SessionStarted(system=system):
            return Message("system", system)
        case UserMessage(text=text):
            return Message("user", text)
        case ModelResponded(continues=Continuation()):
            return None  # its calls stand in the message it goes on with
        case ModelResponded(program=RecordedDataflow() as recorded) as body:
            whole = Dataflow.from_record(event.seq, recorded)
            return Message("assistant", body.text, whole.calls, order=whole.order)
        case ModelResponded(response=response):
            return Message("assistant", response.text, response.calls, order=response.order)
        case ToolFinished() as body if answered:
            return Message("tool", format_result(body), call=body.call)
        case CallAnswered() as body if answered:
            return Message("tool", format_refusal(body), call=body.call)
        case OutcomeUnknown() as body if answered:
            return Message("tool", format_unknown_outcome(body), call=body.call)
        case OutcomeResolved(tool=tool, outcome=outcome):
            return build_notice(f"The outcome of the call to `{tool}` is now known: it {CAME[outcome]}.")
        case EffectUndone(tool=tool, resources=resources):
            return build_notice(f"The change made by `{tool}` to {', '.join(resources)} was undone.")
        case TaskPaused(question=str(question)):
            return Message("assistant", question)
        case TurnJudged(notice=text) if text:
            return build_notice(text)
        case PlanStepChanged(ask=FillRequest(notice=text, about=about)):
            return Message("user", format_object({"foregate": {"notice": text}, **about}))
        case _:
            return None


def build_notice(text: str) -> Message:
    """Return words of Foregate to the model outside any call."""
    return Message("user", format_object({"foregate": {"notice": text}}))


def format_result(body: ToolFinished) -> str:
    """Return the answer to a call that ran."""
    answer: dict[str, Json] = {"ok": body.ok, "output": body.content}
    if body.dropped:
        answer["left_out_bytes"] = body.dropped
    if body.exit_code is not None:
        answer["exit_code"] = body.exit_code
    return format_object(answer)


def format_refusal(body: CallAnswered) -> str:
    """Return the answer to a call that did not run: why, what would cure it, and what the cure already showed."""
    said: dict[str, Json] = {"ruling": body.ruling, "code": body.code, "message": body.message}
    if body.remedy is not None:
        said["remedy"] = strict_json.dump(body.remedy)
    answer: dict[str, Json] = {"ok": False, "foregate": {key: value for key, value in said.items() if value}}
    if body.observed is not None:
        answer["observed"] = strict_json.dump(body.observed)
    return format_object(answer)


def format_unknown_outcome(body: OutcomeUnknown) -> str:
    """Return the answer to a call whose outcome nobody knows."""
    message = f"It is not known whether this took effect ({body.reason}). Do not assume either; look before you go on."
    return format_object({"ok": False, "foregate": {"code": "outcome_unknown", "message": message}})


def format_object(value: Mapping[str, Json]) -> str:
    """Return the object as the text a model reads."""
    return strict_json.canonical(value).decode()

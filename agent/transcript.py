"""What the model is told of an event. Tool output is always a JSON string inside an object of ours.

Words of Foregate stand under the key `foregate` at the top of that object, where no tool output can reach.
"""

from __future__ import annotations

from collections.abc import Mapping

from foregate.agent.program import Program
from foregate.schemas import strict_json
from foregate.schemas.event import Event
from foregate.schemas.message import Message
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.strict_json import Json

CAME: Mapping[str, str] = {"done": "took effect", "not_done": "did not take effect"}
"""What came of a call whose outcome was unknown, in words."""


def message_of(event: Event, answered: bool) -> Message | None:
    """Return the message an event adds to the conversation, or None.

    `answered` tells whether the event answers a call of the response in hand (a runner's own call does not).
    """
    body = event.body
    match event.kind:
        case "session_started":
            return Message("system", body["system"])
        case "user_message":
            return Message("user", body["text"])
        case "model_response" if "continues" in body:
            return None  # its calls stand in the message it goes on with
        case "model_response":
            response = ModelResponse.from_json(body)
            if "program" in body:
                whole = Program.read(event.seq, body["program"])
                return Message("assistant", response.text, whole.calls, order=whole.order)
            return Message("assistant", response.text, response.calls, order=response.order)
        case "tool_finished" if answered:
            return Message("tool", finished(body), call=body["call"])
        case "call_answered" if answered:
            return Message("tool", refused(body), call=body["call"])
        case "outcome_unknown" if answered:
            return Message("tool", unknown(body), call=body["call"])
        case "outcome_resolved":
            return notice(f"The outcome of the call to `{body['tool']}` is now known: it {CAME[body['outcome']]}.")
        case "effect_undone":
            return notice(f"The change made by `{body['tool']}` to {', '.join(body['resources'])} was undone.")
        case "task_paused" if body["reason"] == "needs_input":
            return Message("assistant", body["question"])
        case "turn_judged" if body.get("notice"):
            return notice(body["notice"])
        case "plan_step_changed" if body.get("ask"):
            return Message("user", object_text({"foregate": {"notice": body["ask"]["notice"]}, **body["ask"]["about"]}))
    return None


def notice(text: str) -> Message:
    """Return words of Foregate to the model outside any call."""
    return Message("user", object_text({"foregate": {"notice": text}}))


def finished(body: Mapping[str, Json]) -> str:
    """Return the answer to a call that ran."""
    answer: dict[str, Json] = {"ok": body["ok"], "output": body["content"]}
    if body.get("dropped"):
        answer["left_out_bytes"] = body["dropped"]
    if body.get("exit_code") is not None:
        answer["exit_code"] = body["exit_code"]
    return object_text(answer)


def refused(body: Mapping[str, Json]) -> str:
    """Return the answer to a call that did not run: why, what would cure it, and what the cure already showed."""
    said = {key: body[key] for key in ("ruling", "code", "message", "remedy") if body.get(key)}
    answer: dict[str, Json] = {"ok": False, "foregate": said}
    if body.get("observed") is not None:
        answer["observed"] = body["observed"]
    return object_text(answer)


def unknown(body: Mapping[str, Json]) -> str:
    """Return the answer to a call whose outcome nobody knows."""
    why = body["reason"]
    message = f"It is not known whether this took effect ({why}). Do not assume either; look before you go on."
    return object_text({"ok": False, "foregate": {"code": "outcome_unknown", "message": message}})


def object_text(value: Mapping[str, Json]) -> str:
    """Return the object as the text a model reads."""
    return strict_json.canonical(value).decode()

"""What an ATIF step says by itself of the events it stands for, taken out of their bodies and put back.

Everything stands once: the words, calls, answers and tokens of a session where ATIF has a place for them, the decisions
under `decisions`, and the rest of each event under `events`. So any ATIF reader sees the session, and a reader that
knows Foregate's keys has the events again, byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import Event
from foregate.schemas.strict_json import Json

MESSAGES = {"session_started": "system", "user_message": "text", "task_paused": "question"}
"""Per kind the field that is the step's message; `task_paused` has it only when it asks something."""
ANSWERS = {"tool_finished": "content", "call_answered": "message", "outcome_unknown": "reason"}
"""Per kind the field that is an observation's content."""
CALLED = ("id", "wire_id", "name", "arguments")
"""What an ATIF call says of a recorded one; anything more stands under `more`."""
OFFERED = ("name", "description", "parameters")
"""What stands of a tool under `tool_definitions`."""


def apart(event: Event, shown: Mapping[str, str]) -> dict[str, Any]:
    """Return what an ATIF document has no other place for: the event with the rest of its body, without its chain.

    `shown` is what the step shows for each call. A look that a process died in is taken again, and then it shows the
    last one only.
    """
    body, kind = dict(event.body), event.kind
    if kind in MESSAGES:
        body.pop(MESSAGES[kind], None)
    if kind in ANSWERS and shown.get(body["call"]) == body[ANSWERS[kind]]:
        body.pop(ANSWERS[kind])
    if kind == "session_started":
        body["catalogue"] = [_without(spec, OFFERED) for spec in body["catalogue"]]
    if kind == "model_response" and "continues" not in body:
        for name in ("text", "reasoning", "model"):
            body.pop(name)
        if "program" in body:
            body["program"] = _without(body["program"], ("calls",))
        else:
            body.pop("calls")
        if "places" not in body:
            body.pop("usage")
    if kind == "turn_judged":
        body["judgement"] = _without(body["judgement"], ("decisions",))
    return {
        "seq": event.seq,
        "kind": kind,
        "actor": event.actor,
        "time": event.time,
        "policy": event.policy,
        "hash": event.hash,
        "body": body,
    }


def whole(rest: Mapping[str, Json], step: Mapping[str, Json], document: Mapping[str, Json]) -> Json:
    """Return the body an event had before `apart`; raise LookupError or TypeError for a document that lacks a part."""
    body, kind = dict(rest["body"]), rest["kind"]
    if kind in MESSAGES and (kind != "task_paused" or body["reason"] == "needs_input"):
        body[MESSAGES[kind]] = step["message"]
    if kind in ANSWERS and ANSWERS[kind] not in body:
        body[ANSWERS[kind]] = _content(step, body["call"])
    if kind == "session_started":
        offered = [definition["function"] for definition in document["agent"].get("tool_definitions", ())]
        body["catalogue"] = [
            {**spec, **_only(tool, OFFERED)} for spec, tool in zip(body["catalogue"], offered, strict=True)
        ]
    if kind == "model_response" and "continues" not in body:
        body["text"], body["reasoning"] = step["message"], step.get("reasoning_content", "")
        calls = [called(call) for call in step.get("tool_calls", ())]
        if "program" in body:
            body["program"] = {**body["program"], "calls": calls}
        else:
            body["calls"] = calls
        body["model"] = step.get("model_name", "")
        if "places" not in body:
            metrics = step["metrics"]
            body["usage"] = {
                "input_tokens": metrics["prompt_tokens"],
                "output_tokens": metrics["completion_tokens"],
                "cost": metrics.get("extra", {}).get("cost_micro_units", 0),
            }
    if kind == "turn_judged":
        mark = f"{rest['seq']}."
        found = [row for row in step["extra"]["foregate"].get("decisions", ()) if row["address"].startswith(mark)]
        body["judgement"] = {**body["judgement"], "decisions": [_without(row, ("address",)) for row in found]}
    return body


def raw_apart(raw: str, arguments: Mapping[str, Json] | None) -> str:
    """Return the text of arguments where writing what was read of them again would give another, else ""."""
    try:
        return "" if arguments is not None and strict_json.canonical(arguments).decode() == raw else raw
    except InvalidJson:
        return raw


def called(call: Mapping[str, Json]) -> Json:
    """Return a call of an ATIF step as an event holds it."""
    own = call.get("extra", {}).get("foregate", {})
    raw = own.get("raw")
    return {
        "id": call["tool_call_id"],
        "wire_id": own.get("wire_id", call["tool_call_id"]),
        "name": call["function_name"],
        "arguments": strict_json.canonical(call["arguments"]).decode() if raw is None else raw,
        **own.get("more", {}),
    }


def _content(step: Mapping[str, Json], call: str) -> Json:
    for result in step["observation"]["results"]:
        if result["source_call_id"] == call:
            return result.get("content", "")
    raise LookupError(f"no result of `{call}`")


def _without(body: Mapping[str, Json], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in names}


def _only(body: Mapping[str, Json], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: body[name] for name in names if name in body}

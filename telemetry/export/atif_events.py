"""What an ATIF step says by itself of the events it stands for, taken out of their bodies and put back.

Everything stands once: the words, calls, answers and tokens of a session where ATIF has a place for them, the decisions
under `decisions`, and the rest of each event under `events`. So any ATIF reader sees the session, and a reader that
knows Foregate's keys has the events again, byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import Event
from foregate.schemas.strict_json import Json, as_object, get_int, get_list, get_object, get_text

LAYOUT = 1
"""Version of what stands under `foregate`."""
MESSAGES = {"session_started": "system", "user_message": "text", "task_paused": "question"}
"""Per kind the field that is the step's message; `task_paused` has it only when it asks something."""
ANSWERS = {"tool_finished": "content", "call_answered": "message", "outcome_unknown": "reason"}
"""Per kind the field that is an observation's content."""
OFFERED = ("name", "description", "parameters")
"""What stands of a tool under `tool_definitions`."""


def dump_sorted(noun: Struct) -> dict[str, Json]:
    """Return a noun as the log holds it, its keys in the order of their names."""
    found: dict[str, Json] = msgspec.to_builtins(strict_json.dump(noun), order="deterministic")
    return found


def strip_shown_parts(event: Event, shown: Mapping[str, str]) -> dict[str, Json]:
    """Return what an ATIF document has no other place for: the event with the rest of its body, without its chain.

    `shown` is what the step shows for each call. A look that a process died in is taken again, and then it shows the
    last one only.
    """
    body, kind = dump_sorted(event.body), event.kind
    if kind in MESSAGES:
        body.pop(MESSAGES[kind], None)
    if kind in ANSWERS and shown.get(get_text(body, "call")) == body[ANSWERS[kind]]:
        body.pop(ANSWERS[kind])
    if kind == "session_started":
        body["catalogue"] = [_leave_out(as_object(spec), OFFERED) for spec in get_list(body, "catalogue")]
    if kind == "model_response" and "continues" not in body:
        for name in ("text", "reasoning", "model"):
            body.pop(name)
        if "program" in body:
            body["program"] = _leave_out(get_object(body, "program"), ("calls",))
        else:
            body.pop("calls")
        if "places" not in body:
            body.pop("usage")
    if kind == "turn_judged":
        body["judgement"] = _leave_out(get_object(body, "judgement"), ("decisions",))
    return {
        "seq": event.seq,
        "kind": kind,
        "actor": event.actor,
        "time": event.time,
        "policy": event.policy,
        "hash": event.hash,
        "body": body,
    }


def restore_body(rest: Mapping[str, Json], step: Mapping[str, Json], document: Mapping[str, Json]) -> dict[str, Json]:
    """Return the body an event had before `apart`; raise InvalidJson for a document that lacks a part."""
    body, kind = dict(get_object(rest, "body")), get_text(rest, "kind")
    if kind in MESSAGES and (kind != "task_paused" or body.get("reason") == "needs_input"):
        body[MESSAGES[kind]] = get_text(step, "message")
    if kind in ANSWERS and ANSWERS[kind] not in body:
        body[ANSWERS[kind]] = _find_content(step, get_text(body, "call"))
    if kind == "session_started":
        body["catalogue"] = _read_catalogue(body, get_object(document, "agent"))
    if kind == "model_response" and "continues" not in body:
        body["text"], body["reasoning"] = get_text(step, "message"), get_text(step, "reasoning_content", "")
        calls = [build_recorded_call(call) for call in get_list(step, "tool_calls")]
        if "program" in body:
            body["program"] = {**get_object(body, "program"), "calls": calls}
        else:
            body["calls"] = calls
        body["model"] = get_text(step, "model_name", "")
        if "places" not in body:
            metrics = get_object(step, "metrics")
            body["usage"] = {
                "input_tokens": get_int(metrics, "prompt_tokens"),
                "output_tokens": get_int(metrics, "completion_tokens"),
                "cost": get_int(get_object(metrics, "extra"), "cost_micro_units", 0),
            }
    if kind == "turn_judged":
        mark = f"{get_int(rest, 'seq')}."
        rows = get_list(get_own_part(step), "decisions")
        found = [_leave_out(as_object(row), ("address",)) for row in rows if get_text(row, "address").startswith(mark)]
        body["judgement"] = {**get_object(body, "judgement"), "decisions": found}
    return body


def get_own_part(value: Json) -> Mapping[str, Json]:
    """Return what stands of Foregate's own in an ATIF object, nothing where it has none."""
    return get_object(get_object(value, "extra"), "foregate")


def keep_raw_text(raw: str, arguments: Mapping[str, Json] | None) -> str:
    """Return the text of arguments where writing what was read of them again would give another, else ""."""
    try:
        return "" if arguments is not None and strict_json.canonical(arguments).decode() == raw else raw
    except InvalidJson:
        return raw


def build_recorded_call(call: Json) -> dict[str, Json]:
    """Return a call of an ATIF step as an event holds it."""
    own, name = get_own_part(call), get_text(call, "tool_call_id")
    raw = own.get("raw")
    return {
        "id": name,
        "wire_id": own.get("wire_id", name),
        "name": get_text(call, "function_name"),
        "arguments": strict_json.canonical(get_object(call, "arguments")).decode() if raw is None else raw,
        **get_object(own, "more"),
    }


def _read_catalogue(body: Mapping[str, Json], agent: Mapping[str, Json]) -> list[Json]:
    specs, definitions = get_list(body, "catalogue"), get_list(agent, "tool_definitions")
    if len(specs) != len(definitions):
        raise InvalidJson(f"there are {len(definitions)} definitions of {len(specs)} tools")
    offered = [get_object(definition, "function") for definition in definitions]
    return [{**as_object(spec), **_pick(tool, OFFERED)} for spec, tool in zip(specs, offered, strict=True)]


def _find_content(step: Mapping[str, Json], call: str) -> str:
    for result in get_list(get_object(step, "observation"), "results"):
        if get_text(result, "source_call_id") == call:
            return get_text(result, "content", "")
    raise InvalidJson(f"there is no result of `{call}`")


def _leave_out(body: Mapping[str, Json], names: tuple[str, ...]) -> dict[str, Json]:
    return {name: value for name, value in body.items() if name not in names}


def _pick(body: Mapping[str, Json], names: tuple[str, ...]) -> dict[str, Json]:
    return {name: body[name] for name in names if name in body}

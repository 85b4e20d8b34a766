"""What a real Chat Completions endpoint refuses, so that a test fails where production would."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.agent.models.openai.strict_rules import strict_refusals

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LIMITS = ("max_tokens", "max_completion_tokens")
FORMED = {"model", "messages", "tools", "tool_choice", "response_format", "stream", "stream_options"}
KEYS = FORMED | {"temperature", "stop", *LIMITS}


IDS = r"[a-zA-Z0-9_-]{1,40}"
"""The ids of calls that OpenAI takes."""


def refusals(body: Mapping[str, Any], ids: str = IDS) -> Iterator[str]:
    """Yield what is wrong with a request body for an endpoint that takes such ids of calls."""
    yield from (f"Unrecognized request argument supplied: {key}" for key in body.keys() - KEYS)
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "you must provide a model parameter"
    if not body.get("messages"):
        yield "[] is too short - 'messages'"
    yield from _messages(body.get("messages", []), ids)
    yield from _tools(body)
    yield from _format(body)
    yield from _numbers(body)
    if "stream_options" in body and not body.get("stream"):
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."


def reasoning_refusal(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return parameter and words of what a reasoning model refuses and others take, both "" where there is nothing."""
    if "max_tokens" in body:
        why = "Unsupported parameter: 'max_tokens' is not supported with this model. "
        return "max_tokens", f"{why}Use 'max_completion_tokens' instead."
    if "stop" in body:
        return "stop", "Unsupported parameter: 'stop' is not supported with this model."
    if (warmth := body.get("temperature", 1)) != 1:
        why = f"Unsupported value: 'temperature' does not support {warmth} with this model. "
        return "temperature", f"{why}Only the default (1) value is supported."
    return "", ""


def _numbers(body: Mapping[str, Any]) -> Iterator[str]:
    warmth = body.get("temperature", 1)
    if isinstance(warmth, bool) or not isinstance(warmth, (int, float)):
        yield "Invalid type for 'temperature': expected a decimal"
    elif not 0 <= warmth <= 2:
        yield f"Invalid 'temperature': expected a value between 0 and 2, but got {warmth} instead."
    stop = body.get("stop", "x")
    if not isinstance(stop, str) and not (1 <= len(stop) <= 4 and all(isinstance(one, str) and one for one in stop)):
        yield "Invalid 'stop': array too long. Expected an array with maximum length 4."
    if all(name in body for name in LIMITS):
        yield "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
    for name in LIMITS:
        if name in body and (type(body[name]) is not int or body[name] < 1):
            yield f"Invalid '{name}': integer below minimum value. Expected a value >= 1."


def _messages(messages: Sequence[Mapping[str, Any]], ids: str) -> Iterator[str]:
    open_ids: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages):
        role = message.get("role")
        if role not in ("system", "developer", "user", "assistant", "tool"):
            yield f"Invalid value: '{role}' - 'messages[{number}].role'"
        if role == "tool":
            if message.get("tool_call_id") not in open_ids:
                yield "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            else:
                open_ids.remove(message["tool_call_id"])
            if not isinstance(message.get("content"), str):
                yield f"Invalid type for 'messages[{number}].content'"
            continue
        if open_ids:
            yield f"An assistant message with 'tool_calls' must be followed by tool messages: {open_ids}"
            open_ids = []
        if "tool_calls" not in message:
            if not isinstance(message.get("content"), str):
                yield f"Invalid type for 'messages[{number}].content': expected a string"
            if role == "assistant" and not message.get("content"):
                yield "Assistant message must have either content or tool_calls"
            continue
        if role != "assistant" or not message["tool_calls"]:
            yield f"'messages[{number}].tool_calls' is empty or not allowed here"
        for call in message["tool_calls"]:
            open_ids.append(call["id"])
            yield from _call(call, seen, ids)
    if open_ids:
        yield f"An assistant message with 'tool_calls' must be followed by tool messages: {open_ids}"


def _call(call: Mapping[str, Any], seen: set[str], ids: str) -> Iterator[str]:
    if call.get("type") != "function" or not re.fullmatch(ids, call.get("id", "")):
        yield f"Invalid tool call: {call.get('id')}"
    if call["id"] in seen:
        yield f"Duplicate value for 'tool_call_id': {call['id']}"
    seen.add(call["id"])
    if not NAME.fullmatch(call["function"]["name"]):
        yield "Invalid 'tool_calls.function.name': string does not match pattern"
    try:
        json.loads(call["function"]["arguments"])
    except ValueError:
        yield "the arguments of a tool call are not JSON"


def _tools(body: Mapping[str, Any]) -> Iterator[str]:
    if "tools" not in body:
        if "tool_choice" in body:
            yield "'tool_choice' is only allowed when 'tools' are specified."
        return
    if not body["tools"]:
        yield "[] is too short - 'tools'"
    names = [tool["function"]["name"] for tool in body["tools"]]
    if len(set(names)) != len(names):
        yield "Function names must be unique"
    for tool in body["tools"]:
        if tool["type"] != "function" or not NAME.fullmatch(tool["function"]["name"]):
            yield "Invalid 'tools.function.name': string does not match pattern"
        if tool["function"].get("parameters", {"type": "object"}).get("type") != "object":
            yield "Invalid schema for function: schema must be a JSON Schema of 'type: \"object\"'"
        if tool["function"].get("strict"):
            yield from (
                f"Invalid schema for function: {why}" for why in strict_refusals(tool["function"]["parameters"])
            )


def _format(body: Mapping[str, Any]) -> Iterator[str]:
    wanted = body.get("response_format", {"type": "text"})
    if wanted["type"] == "json_object" and not any("json" in str(m.get("content")).lower() for m in body["messages"]):
        yield "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
    if wanted["type"] == "json_schema":
        form = wanted["json_schema"]
        if not NAME.fullmatch(form.get("name", "")):
            yield "Invalid 'response_format.json_schema.name'"
        if form.get("strict"):
            yield from (f"Invalid schema for response_format: {why}" for why in strict_refusals(form["schema"]))

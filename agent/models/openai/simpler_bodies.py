"""Bodies of requests without what an endpoint refuses. Each function returns a new body, the given one stays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from foregate.schemas.strict_json import Json

Body = Mapping[str, Any]
Send = Callable[[Body, Any], Body]
"""Returns a body as it is sent instead, given what was learnt of the limit: a number, names, or True."""
STANDARD = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})
"""The fields of a message that every endpoint knows."""
_OF_CALL = frozenset({"id", "type", "function"})


def drop(*parts: str) -> Send:
    """Return a function that leaves parts of a body out."""
    return lambda body, _: {key: value for key, value in body.items() if key not in parts}


def stream(body: Body, _: object) -> Body:
    """Ask for a stream, and its usage."""
    return body if body.get("stream") else {**body, "stream": True, "stream_options": {"include_usage": True}}


def rename(old: str, new: str) -> Send:
    """Return a function that sends a part under another name."""
    return lambda body, _: {new if key == old else key: value for key, value in body.items()}


def cap_tokens(body: Body, most: int) -> Body:
    """Bound the tokens of the answer by what the endpoint says is the most."""
    return {key: min(value, most) if key.startswith("max_") else value for key, value in body.items()}


def use_json_mode(body: Body, _: object) -> Body:
    """Ask for JSON in its place, with the schema in the prompt."""
    form = body.get("response_format")
    if not isinstance(form, Mapping) or form.get("type") != "json_schema":
        return body
    text = json.dumps(form["json_schema"]["schema"], ensure_ascii=False, sort_keys=True, default=dict)
    told = f"Answer with one JSON object and nothing else. It must fit this JSON Schema:\n{text}"
    messages = body["messages"]
    if messages and messages[0]["role"] == "system":
        first = {**messages[0], "content": f"{messages[0]['content']}\n\n{told}"}
        messages = [first, *messages[1:]]
    else:
        messages = [{"role": "system", "content": told}, *messages]
    return {**body, "messages": messages, "response_format": {"type": "json_object"}}


def keep_tools(body: Body, most: int) -> Body:
    """Offer so many tools: those called last, then the first of the list, which are those built in."""
    tools = body.get("tools", ())
    if len(tools) <= most:
        return body
    names = [tool["function"]["name"] for tool in tools]
    calls = [call["function"]["name"] for message in body["messages"] for call in message.get("tool_calls", ())]
    order = [name for name in dict.fromkeys([*reversed(calls), *names]) if name in set(names)]
    kept = set(order[:most])
    return {**body, "tools": [tool for tool in tools if tool["function"]["name"] in kept]}


def cut_descriptions(body: Body, most: int) -> Body:
    """Cut the descriptions of tools to so many characters."""

    def cut(function: Mapping[str, Any]) -> Mapping[str, Any]:
        said = function["description"]
        return function if len(said) <= most else {**function, "description": f"{said[: max(0, most - 4)]} ..."}

    return _map_functions(body, cut)


def fill_descriptions(body: Body, _: object) -> Body:
    """Describe a tool without a description by its name."""
    return _map_functions(
        body, lambda function: {**function, "description": function["description"] or function["name"]}
    )


def leave_out_empty_parameters(body: Body, _: object) -> Body:
    """Say nothing of the parameters of a tool that has none."""

    def strip(function: Mapping[str, Any]) -> Mapping[str, Any]:
        empty = not function.get("parameters", {}).get("properties")
        return {key: value for key, value in function.items() if key != "parameters" or not empty}

    return _map_functions(body, strip)


def _map_functions(body: Body, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Body:
    if "tools" not in body:
        return body
    return {**body, "tools": [{**tool, "function": change(tool["function"])} for tool in body["tools"]]}


def name_tools_of_history(body: Body, _: object) -> Body:
    """Name the tools that earlier messages call, as tools that may not be called now."""
    calls = [call["function"]["name"] for message in body["messages"] for call in message.get("tool_calls", ())]
    if "tools" in body or not calls:
        return body
    nothing: Json = {"type": "object", "properties": {}}
    functions = [
        {"name": name, "description": "not available now", "parameters": nothing} for name in dict.fromkeys(calls)
    ]
    return {**body, "tools": [{"type": "function", "function": one} for one in functions], "tool_choice": "none"}


def rename_system(body: Body, _: object) -> Body:
    """Give the system prompt in the role `developer`."""
    return _map_messages(body, lambda one: {**one, "role": "developer"} if one["role"] == "system" else one)


def join_system(body: Body, _: object) -> Body:
    """Put the system prompt in front of the first message of the user."""
    told = "\n\n".join(one["content"] for one in body["messages"] if one["role"] in ("system", "developer"))
    rest = [one for one in body["messages"] if one["role"] not in ("system", "developer")]
    at = next((place for place, one in enumerate(rest) if one["role"] == "user"), None)
    if not told:
        return body
    if at is None:
        return {**body, "messages": [{"role": "user", "content": told}, *rest]}
    first = {**rest[at], "content": f"{told}\n\n{rest[at]['content']}"}
    return {**body, "messages": [*rest[:at], first, *rest[at + 1 :]]}


def fill_content(body: Body, _: object) -> Body:
    """Send an empty text beside calls, where there would be none."""
    return _map_messages(body, lambda one: {**one, "content": ""} if one.get("content", "") is None else one)


def leave_out_empty_content(body: Body, _: object) -> Body:
    """Send no content beside calls where it is empty, and one that says so in any other message."""

    def change(one: Mapping[str, Any]) -> Mapping[str, Any]:
        if one.get("content", "x"):
            return one
        if "tool_calls" in one:
            return {key: value for key, value in one.items() if key != "content"}
        return {**one, "content": "(empty)"}

    return _map_messages(body, change)


def fill_thoughts(body: Body, _: object) -> Body:
    """Give an empty thought to each call that came without one."""
    return _map_messages(body, lambda one: {"reasoning_content": "", **one} if one.get("tool_calls") else one)


def split_calls(body: Body, _: object) -> Body:
    """Make a message of each call, with its answer behind it; words and thoughts stay with the first."""
    messages = body["messages"]
    several = [one["tool_calls"] for one in messages if len(one.get("tool_calls", ())) > 1]
    ids = {call["id"] for calls in several for call in calls}
    answers = {one["tool_call_id"]: one for one in messages if one["role"] == "tool"}
    sent: list[Body] = []
    for one in messages:
        if len(calls := one.get("tool_calls", ())) > 1:
            for at, call in enumerate(calls):
                head = {"role": "assistant", "content": None} if at else one
                sent += [{**head, "tool_calls": [call]}, answers[call["id"]]]
        elif one.get("tool_call_id") not in ids:
            sent.append(one)
    return {**body, "messages": sent}


def strip_fields(body: Body, names: list[str]) -> Body:
    """Leave fields of messages and of their calls out, which the endpoint sent itself."""

    def change(one: Mapping[str, Any]) -> Mapping[str, Any]:
        kept = {key: value for key, value in one.items() if key not in names or key in STANDARD}
        if "tool_calls" in kept:
            calls = kept["tool_calls"]
            kept["tool_calls"] = [{k: v for k, v in call.items() if k not in names or k in _OF_CALL} for call in calls]
        return kept

    return _map_messages(body, change)


def list_own_fields(body: Body) -> set[str]:
    """Return the fields of messages and calls that not every endpoint knows."""
    messages = body.get("messages", ())
    found = {key for one in messages for key in one if key not in STANDARD}
    return found | {
        key for one in messages for call in one.get("tool_calls", ()) for key in call if key not in _OF_CALL
    }


def alternate_roles(body: Body, _: object) -> Body:
    """Join neighbouring messages of the user, so that the roles alternate."""
    joined: list[Any] = []
    for one in body["messages"]:
        if joined and one["role"] == joined[-1]["role"] == "user":
            joined[-1] = {**joined[-1], "content": f"{joined[-1]['content']}\n\n{one['content']}"}
        else:
            joined.append(one)
    return {**body, "messages": joined}


def answer_tools(body: Body, _: object) -> Body:
    """Put words of the assistant between the answers of tools and the next message of the user."""
    sent: list[Any] = []
    for one in body["messages"]:
        if sent and sent[-1]["role"] == "tool" and one["role"] == "user":
            sent.append({"role": "assistant", "content": "I have read the results."})
        sent.append(one)
    return {**body, "messages": sent}


def _map_messages(body: Body, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Body:
    return {**body, "messages": [change(one) for one in body["messages"]]}


PLAIN = frozenset({"type", "properties", "required", "description", "items", "enum"})
"""The keywords of a schema that every endpoint takes."""
EVERY, LISTED_TYPES = "*", "type[]"
"""Stand among keywords for all but the plain ones, and for a `type` that is a list."""
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_ONE_OF = ("anyOf", "oneOf", "allOf")
_DEEPEST = 24


def strip_schemas(body: Body, keywords: list[str]) -> Body:
    """Leave keywords out of the schemas of tools; what they say is still checked here."""

    def change(function: Mapping[str, Any]) -> Mapping[str, Any]:
        parameters = function.get("parameters")
        if not isinstance(parameters, Mapping):
            return function
        return {**function, "parameters": strip_schema(parameters, frozenset(keywords), parameters)}

    return _map_functions(body, change)


def strip_schema(node: Any, gone: frozenset[str], root: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a schema without keywords.

    Of alternatives the first that is no `null` stays, of a reference what it names, of a constant a list of one.
    """
    if isinstance(node, list):
        return [strip_schema(item, gone, root, depth + 1) for item in node]
    if not isinstance(node, Mapping) or depth > _DEEPEST:
        return node if not isinstance(node, Mapping) else {}
    kept: dict[str, Any] = {}
    for key, value in node.items():
        if not _is_gone(key, gone):
            if key in _NAMED and isinstance(value, Mapping):
                kept[key] = {name: strip_schema(item, gone, root, depth + 1) for name, item in value.items()}
            elif key in ("required", "enum", "const", "default", "examples"):
                kept[key] = value
            else:
                kept[key] = strip_schema(value, gone, root, depth + 1)
        elif key == "const" and not _is_gone("enum", gone):
            kept["enum"] = [value]
        elif key in _ONE_OF and isinstance(value, list):
            chosen = next((one for one in value if isinstance(one, Mapping) and one.get("type") != "null"), {})
            kept = {**strip_schema(chosen, gone, root, depth + 1), **kept}
        elif key == "$ref":
            kept = {**strip_schema(_find_named(value, root), gone, root, depth + 4), **kept}
    if gone & {EVERY, LISTED_TYPES} and isinstance(kept.get("type"), list):
        kept["type"] = next((one for one in kept["type"] if one != "null"), "string")
    return kept


def _is_gone(key: str, gone: frozenset[str]) -> bool:
    return key in gone or (EVERY in gone and key not in PLAIN)


def _find_named(reference: object, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for part in str(reference).removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def list_keywords(body: Body) -> set[str]:
    """Return the keywords in the schemas of a body's tools; names of properties are none."""
    return {key for tool in body.get("tools", ()) for key in _list_keys(tool["function"].get("parameters"), 0)}


def _list_keys(node: Any, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    for item in node if isinstance(node, list) else ():
        yield from _list_keys(item, depth + 1)
    for key, value in node.items() if isinstance(node, Mapping) else ():
        yield key
        if key == "type" and isinstance(value, list):
            yield LISTED_TYPES
        inner = value.values() if key in _NAMED and isinstance(value, Mapping) else [value]
        for one in inner:
            yield from _list_keys(one, depth + 1)

"""When a server refuses a request: conditions by name, each of which returns what it found, None for nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Body = Mapping[str, Any]
Found = Mapping[str, Any] | None
"""Words for the refusal, such as the id that was found."""
CHARACTERS = 3.5
"""Characters of a request that these servers count as a token, fewer than Foregate's estimate has."""


def count_tokens(body: Body) -> int:
    """Return the tokens of the messages and tools of a request."""
    said = {key: body[key] for key in ("messages", "tools") if key in body}
    return int(len(json.dumps(said, ensure_ascii=False)) / CHARACTERS)


def find_refusal(when: Mapping[str, Any], body: Body) -> Found:
    """Return what is found where every condition of `when` is true of a request, else None."""
    found: dict[str, Any] = {}
    for name, wanted in when.items():
        words = CONDITIONS[name](body, wanted)
        if words is None:
            return None
        found |= words
    return found


def fill(value: Any, words: Mapping[str, Any]) -> Any:
    """Return a value with `{name}` in its texts replaced; a text that is one name alone becomes the value itself."""
    if isinstance(value, str):
        if (whole := re.fullmatch(r"\{(\w+)\}", value)) and whole[1] in words:
            return words[whole[1]]
        return re.sub(r"\{(\w+)\}", lambda match: str(words.get(match[1], match[0])), value)
    if isinstance(value, Mapping):
        return {key: fill(inner, words) for key, inner in value.items()}
    return [fill(inner, words) for inner in value] if isinstance(value, list) else value


def _list_spoken(body: Body) -> Iterator[tuple[int, Body]]:
    """Yield the place and the message of each assistant message."""
    return ((at, message) for at, message in enumerate(body["messages"]) if message["role"] == "assistant")


def _find_newest(body: Body) -> int:
    return max((at for at, message in enumerate(body["messages"]) if message["role"] == "user"), default=0)


def _has_field(body: Body, names: Sequence[str]) -> Found:
    return next(({"field": name, "value": body[name]} for name in names if name in body), None)


def _has_message_field(body: Body, names: Sequence[str]) -> Found:
    spoken = ((at, name) for at, message in _list_spoken(body) for name in names if name in message)
    return next(({"at": at, "field": name} for at, name in spoken), None)


def _has_other_message_field(body: Body, names: Sequence[str]) -> Found:
    spoken = ((at, name) for at, message in _list_spoken(body) for name in message if name not in names)
    return next(({"at": at, "field": name} for at, name in spoken), None)


def _has_other_field(body: Body, names: Sequence[str]) -> Found:
    return next(({"field": name, "value": body[name]} for name in body if name not in names), None)


def _has_other_id(body: Body, pattern: str) -> Found:
    ids = [call["id"] for _, message in _list_spoken(body) for call in message.get("tool_calls", ())]
    ids += [message.get("tool_call_id", "") for message in body["messages"] if message["role"] == "tool"]
    return next(({"id": one} for one in ids if not re.fullmatch(pattern, one)), None)


def _has_long_id(body: Body, most: int) -> Found:
    ids = [call["id"] for _, message in _list_spoken(body) for call in message.get("tool_calls", ())]
    return next(({"id": one, "length": len(one)} for one in ids if len(one) > most), None)


def _lacks_message_field(body: Body, name: str) -> Found:
    spoken = (at for at, message in _list_spoken(body) if message.get("tool_calls") and name not in message)
    return next(({"at": at} for at in spoken), None)


def _lacks_signature(body: Body, path: str) -> Found:
    """Only calls since the newest message of the user are checked, of those in one message the first."""
    for at, message in _list_spoken(body):
        if at > _find_newest(body) and message.get("tool_calls"):
            value: Any = message["tool_calls"][0]
            for key in path.split("."):
                value = value.get(key) if isinstance(value, Mapping) else None
            if not value:
                return {"at": at, "name": message["tool_calls"][0]["function"]["name"]}
    return None


def _has_choice(body: Body, values: Sequence[str]) -> Found:
    choice = body.get("tool_choice")
    return {"choice": choice} if choice in values else None


def _has_keyword(body: Body, words: Sequence[str]) -> Found:
    def walk(value: Any, path: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                if key in words and not path.endswith("properties"):
                    yield path, key
                yield from walk(inner, f"{path}.{key}")
        elif isinstance(value, list):
            for number, inner in enumerate(value):
                yield from walk(inner, f"{path}[{number}]")

    for number, tool in enumerate(body.get("tools", ())):
        for path, word in walk(tool["function"].get("parameters", {}), "parameters"):
            return {"tool": number, "path": path, "keyword": word}
    return None


def _has_content(body: Body, kind: str) -> Found:
    said = {"null": None, "empty": ""}[kind]
    found = (at for at, message in _list_spoken(body) if message.get("content", said if kind == "null" else 1) == said)
    return next(({"at": at} for at in found), None)


def _is_blank(body: Body, wanted: bool) -> Found:
    """A message that says nothing and calls nothing, or a text beside calls that is there and empty."""
    found = (at for at, message in enumerate(body["messages"]) if message.get("content", None) == "")
    return next(({"at": at} for at in found), None) if wanted else None


def _is_hollow(body: Body, wanted: bool) -> Found:
    found = (at for at, message in _list_spoken(body) if not message.get("content") and not message.get("tool_calls"))
    return next(({"at": at} for at in found), None) if wanted else None


def _has_repeated_id(body: Body, wanted: bool) -> Found:
    ids = [call["id"] for _, message in _list_spoken(body) for call in message.get("tool_calls", ())]
    return {"id": ids[0]} if wanted and len({*ids}) < len(ids) else None


def _lacks_parameters(body: Body, wanted: bool) -> Found:
    found = (tool["function"]["name"] for tool in body.get("tools", ()) if not tool["function"].get("parameters"))
    return next(({"name": name} for name in found), None) if wanted else None


def _has_several_calls(body: Body, most: int) -> Found:
    found = (at for at, message in _list_spoken(body) if len(message.get("tool_calls", ())) > most)
    return next(({"at": at} for at in found), None)


def _has_role(body: Body, role: str) -> Found:
    found = (at for at, message in enumerate(body["messages"]) if message["role"] == role)
    return next(({"at": at, "role": role} for at in found), None)


def _has_later_system(body: Body, wanted: bool) -> Found:
    found = (at for at, message in enumerate(body["messages"]) if at and message["role"] == "system")
    return next(({"at": at} for at in found), None) if wanted else None


def _has_more_tools(body: Body, most: int) -> Found:
    count = len(body.get("tools", ()))
    return {"count": count, "most": most} if count > most else None


def _has_tools(body: Body, wanted: bool) -> Found:
    return {} if bool(body.get("tools")) == wanted else None


def _has_long_description(body: Body, most: int) -> Found:
    found = (tool["function"] for tool in body.get("tools", ()))
    return next(({"name": one["name"], "most": most} for one in found if len(one["description"]) > most), None)


def _has_other_value(body: Body, values: Mapping[str, Any]) -> Found:
    found = (name for name, value in values.items() if name in body and body[name] != value)
    return next(({"field": name, "value": body[name]} for name in found), None)


def _has_format(body: Body, kind: str) -> Found:
    return {"format": kind} if body.get("response_format", {}).get("type") == kind else None


def _is_streamed(body: Body, wanted: bool) -> Found:
    return {} if bool(body.get("stream")) == wanted else None


def _is_too_long(body: Body, window: int) -> Found:
    tokens = count_tokens(body)
    return {"tokens": tokens, "window": window, "over": tokens - window} if tokens > window else None


CONDITIONS: Mapping[str, Callable[[Body, Any], Found]] = {
    "field": _has_field,
    "other_field": _has_other_field,
    "message_field": _has_message_field,
    "other_message_field": _has_other_message_field,
    "lacks_field": _lacks_message_field,
    "lacks_signature": _lacks_signature,
    "other_id": _has_other_id,
    "long_id": _has_long_id,
    "choice": _has_choice,
    "keyword": _has_keyword,
    "content": _has_content,
    "blank": _is_blank,
    "hollow": _is_hollow,
    "repeated_id": _has_repeated_id,
    "no_parameters": _lacks_parameters,
    "several_calls": _has_several_calls,
    "role": _has_role,
    "later_system": _has_later_system,
    "more_tools": _has_more_tools,
    "tools": _has_tools,
    "long_description": _has_long_description,
    "other_value": _has_other_value,
    "format": _has_format,
    "streamed": _is_streamed,
    "window": _is_too_long,
}

"""Requests as endpoints take them: Chat Completions from our nouns, and the Responses API in the words of those."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from foregate.agent.models.openai.abilities import describe, simplify
from foregate.agent.models.openai.ability import LIMITS, Learnt
from foregate.agent.models.openai.endpoint import Api
from foregate.agent.models.openai.simpler_bodies import Body
from foregate.schemas.message import MAX_NAME, ModelRequest, WireNames, format_messages
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import ToolSpec

ENCRYPTED = "reasoning.encrypted_content"
"""What is asked of Responses beside the answer: thoughts in a form that goes back, for the endpoint stores nothing."""
MAX_STOPS = 4
PATHS: Mapping[Api, str] = {"chat": "/chat/completions", "responses": "/responses"}
_OUTPUT = "output"
"""The field of a message of Chat Completions that holds the items it stands for, as they came."""
_TEXTS = {
    "response.output_text.delta": "content",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "reasoning_content",
    "response.reasoning_text.delta": "reasoning_content",
}
"""Events with a piece of text, and the field of a message it belongs to."""
_ALIKE = ("include", "tool_choice", "parallel_tool_calls", "temperature", "stream")
_FINISHES = {"max_output_tokens": "length", "content_filter": "content_filter"}
_PARTS = {"output_text": ("text", "content"), "refusal": ("refusal", "refusal")}
"""Parts of a message: where their text stands, and the field it belongs to."""
_NAMED = frozenset({"format", "id", "index", "name", "object", "role", "type"})
"""Fields that name something: a piece repeats them whole, where other fields continue their text."""
_ORDERED_PARTS = ("text", "thinking")
"""Parts of a content that come in pieces, one after the other and without an index."""
_DEEPEST = 100
_NEAR = 64
"""Items of a list, from its end, among which the one is looked for that a piece continues."""


class WireRequest:
    """A request ready to be written for the wire, again and again in simpler forms; `names` spells its tools'.

    `mark` is that of the endpoint which gets it, see `Endpoint.mark`, and `api` the API it is asked by.
    """

    def __init__(self, request: ModelRequest, mark: str = "", api: Api = "chat") -> None:
        self.request, self.mark, self.api = request, mark, api
        self.names = self._usual = WireNames([spec.name for spec in request.tools])

    def build_body(self, model: str, *, stream: bool, learnt: Learnt | None = None) -> tuple[Body, tuple[str, ...]]:
        """Return the body in the form that an endpoint takes, as far as that is known, and a sentence for each change.

        Raises ModelError for a conversation no endpoint takes.
        """
        request, learnt = self.request, learnt or {}
        notes = self._spell_names(learnt)
        body: dict[str, Json] = {"model": model, "messages": format_messages(request.messages, self.names, self.mark)}
        if request.tools:
            body["tools"] = [_build_tool(spec, self.names) for spec in request.tools]
            body["tool_choice"] = "none" if request.words_only else "auto"
        if request.schema is not None:
            name = WireNames([request.schema_name or "answer"]).to_wire(request.schema_name or "answer")
            schema: Json = {"name": name, "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.stop:
            body["stop"] = list(request.stop[:MAX_STOPS])
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.max_tokens is not None:
            body[LIMITS[0]] = request.max_tokens
        if self.api == "responses":
            body["include"] = [ENCRYPTED]
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        simpler, more = simplify(body, learnt)
        return simpler, (*notes, *more)

    def _spell_names(self, learnt: Learnt) -> tuple[str, ...]:
        """Spell the names of tools as the endpoint takes them; return a sentence where that is otherwise than usual."""
        found = [name for name in ("name_length", "plain_names") if name in learnt]
        if not found:
            self.names = self._usual
            return ()
        names, longest = [spec.name for spec in self.request.tools], learnt.get("name_length")
        most = longest if isinstance(longest, int) else MAX_NAME
        self.names = WireNames(names, most, plain="plain_names" in learnt)
        if all(self.names.to_wire(name) == self._usual.to_wire(name) for name in names):
            return ()
        return tuple(describe(name, learnt[name]) for name in found)


def encode_body(body: Mapping[str, Json]) -> bytes:
    """Return the body's JSON as UTF-8; lone surrogates become U+FFFD."""
    return mend_surrogates(json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=dict)).encode("utf-8")


def mend_surrogates(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _build_tool(spec: ToolSpec, names: WireNames) -> dict[str, Json]:
    parameters = spec.parameters or {"type": "object", "properties": {}}
    said: dict[str, Json] = {"name": names.to_wire(spec.name), "description": spec.description}
    return {"type": "function", "function": {**said, "parameters": parameters}}


def translate_body(body: Mapping[str, Json]) -> dict[str, Json]:
    """Return the body of a Responses request that asks what one of Chat Completions does. Nothing is stored there.

    It knows no texts to stop before; whoever reads the answer cuts it there.
    """
    messages: Any = body["messages"]
    made: dict[str, Json] = {"model": body["model"], "input": [item for one in messages for item in _list_items(one)]}
    made |= {"store": False, **{name: body[name] for name in _ALIKE if name in body}}
    tools: Any = body.get("tools")
    if tools:
        made["tools"] = [{"type": "function", "strict": False, **tool["function"]} for tool in tools]
    form: Any = body.get("response_format")
    if form:
        made["text"] = {"format": {"type": form["type"], **form.get("json_schema", {})}}
    limit = next((body[name] for name in LIMITS if name in body), None)
    return made if limit is None else {**made, "max_output_tokens": limit}


def _list_items(message: Mapping[str, Any]) -> Iterator[Json]:
    """Yield the items a message stands for: its own, as they came, where its calls still go by the ids in them."""
    calls = message.get("tool_calls", ())
    own = message.get(_OUTPUT)
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
    elif own and {call["id"] for call in calls} == {item["call_id"] for item in _calls_of(own)}:
        yield from (item for at, item in enumerate(own) if item not in own[:at] and _may_go_back(item))
    else:
        if message.get("content"):
            yield {"role": message["role"], "content": message["content"]}
        for call in calls:
            function = call["function"]
            said = {"name": function["name"], "arguments": function["arguments"]}
            yield {"type": "function_call", "call_id": call["id"], **said}


def _may_go_back(item: Mapping[str, Any]) -> bool:
    """Whether an endpoint that stores nothing can read an item again: thoughts only with what was thought in them."""
    return item.get("type") != "reasoning" or bool(item.get("encrypted_content") or item.get("content"))


def _calls_of(items: object) -> list[Mapping[str, Any]]:
    found = [item for item in items if isinstance(item, Mapping)] if isinstance(items, Sequence) else []
    return [item for item in found if item.get("type") == "function_call" and isinstance(item.get("call_id"), str)]


class ResponsesReader:
    """Makes chunks of Chat Completions of an answer, or of the events of a stream, in order."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._items: list[Mapping[str, Json]] = []

    def read(self, event: Json) -> Iterator[Json]:
        """Yield what an event, or a whole answer, says; what is neither is passed on unchanged."""
        if not isinstance(event, Mapping) or event.get("error"):
            yield event
            return
        kind, whole = event.get("type"), event.get("response")
        if isinstance(kind, str) and kind in _TEXTS:
            self._said.add(_TEXTS[kind])
            yield _build_chunk({_TEXTS[kind]: event.get("delta")})
        elif kind == "response.output_item.done" and isinstance(item := event.get("item"), Mapping):
            self._items.append(item)
            yield from self._read_item(item)
        elif kind in ("response.completed", "response.incomplete", "response.failed") and isinstance(whole, Mapping):
            yield from self._end(whole)
        elif event.get("object") == "response" or (kind is None and _OUTPUT in event):
            yield from self._end(event)
        elif kind == "error":
            yield {"error": {name: event.get(name) for name in ("code", "message")}}

    def _read_item(self, item: Mapping[str, Json]) -> Iterator[Json]:
        """Yield what an item says that no piece has said yet."""
        for call in _calls_of([item]):
            function = {"name": call.get("name"), "arguments": call.get("arguments")}
            yield _build_chunk({"tool_calls": [{"id": call["call_id"], "function": function}]})
        if item.get("type") == "message" and not {"content", "refusal"} & self._said:
            for part in _objects(item.get("content")):
                place, name = _PARTS.get(str(part.get("type")), ("", ""))
                yield _build_chunk({name: part.get(place)} if name else {})
        if item.get("type") == "reasoning" and "reasoning_content" not in self._said:
            for part in (*_objects(item.get("summary")), *_objects(item.get("content"))):
                yield _build_chunk({"reasoning_content": part.get("text")})

    def _end(self, whole: Mapping[str, Json]) -> Iterator[Json]:
        """Yield what is left to say: items that came in no event, then all of them, why it ended, and usage."""
        if whole.get("error") or whole.get("status") == "failed":
            yield {"error": whole.get("error") or "the response failed"}
            return
        items = _objects(whole.get(_OUTPUT)) or self._items
        for item in items[len(self._items) :]:
            yield from self._read_item(item)
        details: Any = whole.get("incomplete_details")
        cut = details.get("reason") if isinstance(details, Mapping) else None
        finish = _FINISHES.get(str(cut), "other") if whole.get("status") == "incomplete" else ""
        chunk = _build_chunk({_OUTPUT: items}, finish or ("tool_calls" if _calls_of(items) else "stop"))
        usage: Any = whole.get("usage")
        if isinstance(usage, Mapping):
            told = {"prompt_tokens": usage.get("input_tokens"), "completion_tokens": usage.get("output_tokens")}
            chunk["usage"] = told
        yield {**chunk, "model": whole.get("model")}


def _build_chunk(delta: Mapping[str, Json], finish: str | None = None) -> dict[str, Json]:
    return {"choices": [{"delta": delta, "finish_reason": finish}]}


def _objects(value: Json) -> list[Mapping[str, Json]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


class _Pieces(list[str]):
    """A text that is not whole yet."""


class OwnFields:
    """Fields as they come in pieces. One that is nested deeper than a log should hold is left out."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self.has_left_out = False

    def add(self, fields: Mapping[str, Json]) -> int:
        """Take in the next pieces; return about how many characters they take as JSON."""
        size = 0
        for name, value in fields.items():
            try:
                size += _measure(value, _DEEPEST)
            except RecursionError:
                self.has_left_out = True
                continue
            self._fields[name] = _join(self._fields.get(name), value, name)
        return size

    def end(self) -> dict[str, Json]:
        """Return what was collected."""
        return {name: _end(value) for name, value in self._fields.items()}


def _join(old: Any, new: Json, name: str = "") -> Any:
    """Return a value that is collected, `old` or None, with its next piece; `old` may be changed.

    Texts go on, objects do so field by field and lists item by item; anything else is replaced.
    """
    if new is None:
        return old
    if isinstance(new, str):
        if name in _NAMED or not isinstance(old, _Pieces):
            return new if name in _NAMED else _Pieces([new])
        old.append(new)
        return old
    if isinstance(new, Mapping):
        found = old if isinstance(old, dict) else {}
        for key, value in new.items():
            found[key] = _join(found.get(key), value, key)
        return found
    if isinstance(new, list):
        items = old if isinstance(old, list) and not isinstance(old, _Pieces) else []
        for item in new:
            at = _find_item(items, item)
            if at < len(items):
                items[at] = _join(items[at], item)
            else:
                items.append(_join(None, item))
        return items
    return new


def _end(value: Any) -> Any:
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {key: _end(item) for key, item in value.items()}
    return [_end(item) for item in value] if isinstance(value, list) else value


def _measure(value: Json, left: int) -> int:
    """Return about how many characters a value takes as JSON; raise RecursionError where it is nested deeper."""
    if not left:
        raise RecursionError
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(key) + _measure(item, left - 1) + 4 for key, item in value.items())
    return sum(_measure(item, left - 1) + 2 for item in value) if isinstance(value, list) else 8


def _find_item(items: list[Any], piece: Json) -> int:
    """Return the place of the item that a piece continues: by its index, or just before; else the next place."""
    if not isinstance(piece, Mapping) or not items:
        return len(items)
    index = piece.get("index")
    if index is None:
        last = items[-1]
        goes_on = (
            isinstance(last, dict) and piece.get("type") in _ORDERED_PARTS and last.get("type") == piece.get("type")
        )
        return len(items) - 1 if goes_on else len(items)
    for at in range(len(items) - 1, max(-1, len(items) - 1 - _NEAR), -1):
        if isinstance(items[at], dict) and items[at].get("index") == index:
            return at
    return len(items)

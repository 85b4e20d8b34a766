"""From our nouns to a Chat Completions request: names, ids, messages, tools, formats."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from foregate.schemas.errors import ModelError
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec

ALLOWED = re.compile(r"[a-zA-Z0-9_-]+")
MAX_NAME = 64
MAX_ID = 40
MAX_STOPS = 4
MAX_DESCRIPTION = 1024
UNANSWERED = json.dumps(
    {"foregate": {"message": "No answer to this call was recorded. Do not assume that it ran."}, "ok": False}
)
FORMATS = ("json_schema", "json_object")
LIMITS = ("max_tokens", "max_completion_tokens")
"""The names of the bound on a response's tokens, the one most endpoints know first."""
NOTES = {
    "json_schema": "the endpoint refuses strict JSON Schemas: JSON mode with the schema in the prompt was used",
    "json_object": "the endpoint refuses JSON mode too: only the prompt asked for JSON",
    "stream_options": "the endpoint refuses to report usage in a stream",
    "temperature": "the endpoint refuses the temperature: its own was used",
    "max_tokens": "the endpoint refuses `max_tokens`: the bound on tokens was sent as `max_completion_tokens`",
    "max_completion_tokens": "the endpoint refuses `max_completion_tokens` too: no bound on tokens was sent",
    "long_descriptions": f"the endpoint refuses long tool descriptions: they were cut to {MAX_DESCRIPTION} characters",
}


class WireNames:
    """A reversible table from any text to the wire's alphabet, unique within one request.

    What the wire allows stays as it is; everything else is spelled with underscores, and with a piece of its hash
    where two would be spelled alike.
    """

    def __init__(self, names: Collection[str], longest: int = MAX_NAME) -> None:
        self._longest = longest
        self._wire = {name: name for name in names if self._fits(name)}
        self._taken = set(self._wire)
        for name in names:
            self.to_wire(name)
        self._own = {wire: name for name, wire in self._wire.items()}

    def to_wire(self, name: str) -> str:
        """Return the spelling for the wire; a name not seen before gets one that nobody has."""
        if name not in self._wire:
            spelled = name if self._fits(name) else re.sub(r"[^a-zA-Z0-9_-]", "_", name)[: self._longest] or "_"
            attempt = 0
            while spelled in self._taken or (attempt == 0 and len(name) > self._longest):
                attempt += 1
                mark = hashlib.sha256(f"{attempt}:{name}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
                spelled = f"{spelled[: self._longest - 9]}_{mark}"
            self._wire[name] = spelled
            self._taken.add(spelled)
        return self._wire[name]

    def to_own(self, wire: str) -> str:
        """Return the name a spelling stands for; one that stands for none is returned as it is."""
        return self._own.get(wire, wire)

    def known(self, wire: str) -> bool:
        """Whether a spelling stands for one of the names the table was made with."""
        return wire in self._own

    def _fits(self, name: str) -> bool:
        return len(name) <= self._longest and ALLOWED.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A request ready to be written for the wire, again and again in simpler forms."""

    request: ModelRequest
    names: WireNames

    @classmethod
    def of(cls, request: ModelRequest) -> WireRequest:
        """Return the request with its table of tool names."""
        return cls(request, WireNames([spec.name for spec in request.tools]))

    def body(self, model: str, *, stream: bool, declined: Collection[str] = ()) -> dict[str, Json]:
        """Return the body without the features `declined`; raise ModelError for a conversation no endpoint takes."""
        request = self.request
        form = next((form for form in FORMATS if form not in declined), "") if request.schema is not None else ""
        told = "" if request.schema is None or form == "json_schema" else _told(request.schema)
        body: dict[str, Json] = {"model": model, "messages": messages(request.messages, self.names, told)}
        if request.tools:
            longest = MAX_DESCRIPTION if "long_descriptions" in declined else 0
            body["tools"] = [_tool(spec, self.names, longest) for spec in request.tools]
            body["tool_choice"] = "none" if request.words_only else "auto"
        if form == "json_schema":
            name = WireNames([request.schema_name or "answer"]).to_wire(request.schema_name or "answer")
            body["response_format"] = {
                "type": form,
                "json_schema": {"name": name, "strict": True, "schema": request.schema},
            }
        elif form:
            body["response_format"] = {"type": form}
        if request.stop and "stop" not in declined:
            body["stop"] = list(request.stop[:MAX_STOPS])
        if request.temperature is not None and "temperature" not in declined:
            body["temperature"] = request.temperature
        limit = next((name for name in LIMITS if name not in declined), "")
        if request.max_tokens is not None and limit:
            body[limit] = request.max_tokens
        if stream:
            body["stream"] = True
            if "stream_options" not in declined:
                body["stream_options"] = {"include_usage": True}
        return body

    def notes(self, stream: bool, declined: Collection[str]) -> tuple[str, ...]:
        """Return a sentence for each declined feature this request would have used."""
        used = {
            "json_schema": self.request.schema is not None,
            "json_object": self.request.schema is not None,
            "stream_options": stream,
            "temperature": self.request.temperature is not None,
            "max_tokens": self.request.max_tokens is not None,
            "max_completion_tokens": self.request.max_tokens is not None,
            "long_descriptions": any(len(spec.description) > MAX_DESCRIPTION for spec in self.request.tools),
        }
        return tuple(note for feature, note in NOTES.items() if feature in declined and used[feature])


def encode(body: Mapping[str, Json]) -> bytes:
    """Return the body's JSON as UTF-8; lone surrogates become U+FFFD."""
    return mend(json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=dict)).encode("utf-8")


def mend(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def messages(history: Sequence[Message], names: WireNames, told: str = "") -> list[dict[str, Json]]:
    """Return the messages, each answer right behind the message that called, as endpoints demand.

    Ids are the session's own. A call without an answer gets one that says so. `told` joins the first system
    message. Raises ModelError for an answer to a call nobody made, and for calls or answers of one id.
    """
    answers = _answers(history)
    ids = WireNames([call.id for message in history for call in message.calls], MAX_ID)
    result: list[dict[str, Json]] = []
    seen: set[str] = set()
    for message in history:
        if message.role == "tool":
            if message.call not in seen:
                raise ModelError(f"the conversation answers a call nobody made (`{message.call}`); start a new session")
        elif message.calls:
            result.append(_calling(message, names, ids))
            for call in message.calls:
                if call.id in seen:
                    raise ModelError(f"the conversation holds two calls with the id `{call.id}`; start a new session")
                seen.add(call.id)
                answer = answers.get(call.id, UNANSWERED)
                result.append({"role": "tool", "tool_call_id": ids.to_wire(call.id), "content": answer})
        elif message.text or message.role != "assistant":
            result.append({"role": message.role, "content": message.text})
    return _with_told(result, told) if told else result


def _answers(history: Sequence[Message]) -> dict[str, str]:
    answers: dict[str, str] = {}
    for message in history:
        if message.role == "tool":
            if message.call in answers:
                raise ModelError(f"the conversation answers the call `{message.call}` twice; start a new session")
            answers[message.call] = message.text
    return answers


def _calling(message: Message, names: WireNames, ids: WireNames) -> dict[str, Json]:
    calls = [
        {
            "id": ids.to_wire(call.id),
            "type": "function",
            "function": {"name": names.to_wire(call.name), "arguments": _arguments(call)},
        }
        for call in message.calls
    ]
    return {"role": "assistant", "content": message.text or None, "tool_calls": calls}


def _arguments(call: ToolCall) -> str:
    """Return arguments every endpoint can parse: many refuse a whole conversation for one call they cannot."""
    return call.raw if call.arguments is not None else json.dumps({"unreadable_arguments": call.raw})


def _tool(spec: ToolSpec, names: WireNames, longest: int) -> dict[str, Json]:
    description = spec.description
    if longest and len(description) > longest:
        description = f"{description[: longest - 4]} ..."
    parameters = spec.parameters or {"type": "object", "properties": {}}
    function = {"name": names.to_wire(spec.name), "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _told(schema: Mapping[str, Json]) -> str:
    text = json.dumps(schema, ensure_ascii=False, sort_keys=True, default=dict)
    return f"Answer with one JSON object and nothing else. It must fit this JSON Schema:\n{text}"


def _with_told(result: list[dict[str, Json]], told: str) -> list[dict[str, Json]]:
    if result and result[0]["role"] == "system":
        first = {**result[0], "content": f"{result[0]['content']}\n\n{told}"}
        return [first, *result[1:]]
    return [{"role": "system", "content": told}, *result]

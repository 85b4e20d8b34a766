"""The messages of a conversation: as a model gets them, as they are kept, and in the form chat endpoints share."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.errors import ModelError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.model_response import Block, RecordedCall, WireMessage, read_fields
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec


class Message(Struct, frozen=True, gc=False):
    """One message. `calls`, `order`, `wire` only on `assistant`; `call` (the answered call's own id) only on `tool`."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    calls: tuple[ToolCall, ...] = ()
    call: str = ""
    order: Block | None = None
    wire: WireMessage | None = None


class ModelRequest(Struct, frozen=True):
    """What a model is asked. `schema` (name and JSON Schema) asks for strict JSON; `words_only` forbids calls.

    `purpose` is `chat`, `plan`, `critique`, `task_plan` or `plan_results`; adapters send it nowhere, deterministic
    models read it. Generation ends before any of the texts in `stop`, where the endpoint can do that; whoever reads the
    answer cuts it. `temperature` is 0 to 2 and `max_tokens` bounds the tokens of the response; None leaves either to
    the endpoint.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    words_only: bool = False
    schema_name: str = ""
    schema: Mapping[str, Json] | None = None
    purpose: Literal["chat", "plan", "critique", "task_plan", "plan_results"] = "chat"
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()


# "read_file", "my-tool".
ALLOWED = compile_late(r"[a-zA-Z0-9_-]+")
# "read_file"; "my-tool" and "2nd" are no such names.
_PLAIN = compile_late(r"[a-zA-Z][a-zA-Z0-9_]*")
MAX_NAME = 64
MAX_ID = 40
_ID = 9
"""Letters and digits of a call's id for an endpoint that did not give it: what Mistral's demands, all others take."""
UNANSWERED = json.dumps(
    {"foregate": {"message": "No answer to this call was recorded. Do not assume that it ran."}, "ok": False}
)


class WireNames:
    """A reversible table from any text to the wire's alphabet, unique within one request.

    What the wire allows stays; everything else is spelled with underscores, and with a part of its hash where two would
    be spelled alike. A `plain` table has only letters, digits and underscores, a letter first.
    """

    def __init__(self, names: Collection[str], longest: int = MAX_NAME, *, plain: bool = False) -> None:
        self._longest, self._plain = longest, plain
        self._wire = {name: name for name in names if self._is_wire_name(name)}
        self._taken = set(self._wire)
        for name in names:
            self.to_wire(name)
        self._own = {wire: name for name, wire in self._wire.items()}

    def to_wire(self, name: str) -> str:
        """Return the spelling for the wire; a name not seen before gets one that nobody has."""
        if name not in self._wire:
            spelled = name if self._is_wire_name(name) else self._spell(name)[: self._longest] or "_"
            attempt = 0
            while spelled in self._taken or (attempt == 0 and len(name) > self._longest):
                attempt += 1
                mark = hashlib.sha256(f"{attempt}:{name}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
                spelled = f"{spelled[: self._longest - 9]}_{mark}"
            self._wire[name] = spelled
            self._taken.add(spelled)
        return self._wire[name]

    def to_own(self, wire: str) -> str:
        """Return the name a spelling stands for; one that stands for none is returned unchanged."""
        return self._own.get(wire, wire)

    def is_known(self, wire: str) -> bool:
        """Whether a spelling stands for one of the names the table was made with."""
        return wire in self._own

    def _spell(self, name: str) -> str:
        spelled = re.sub(r"[^a-zA-Z0-9_]" if self._plain else r"[^a-zA-Z0-9_-]", "_", name)
        return f"t_{spelled}" if self._plain and not spelled[:1].isalpha() else spelled

    def _is_wire_name(self, name: str) -> bool:
        return len(name) <= self._longest and (_PLAIN if self._plain else ALLOWED).fullmatch(name) is not None


def format_messages(history: Sequence[Message], names: WireNames, endpoint: str | None = None) -> list[dict[str, Json]]:
    """Return the messages, each answer right behind the message that called, as endpoints demand.

    What `endpoint` said itself goes back as it came, with its own ids. To any other goes what every endpoint has.
    Without an endpoint, ids are the session's own. A call without an answer gets one that says so. Raises ModelError
    for an answer to a call nobody made, and for calls or answers of one id.
    """
    answers = _index_answers(history)
    spelled = WireNames([one.id for message in history for one in message.calls] if endpoint is None else [], MAX_ID)
    result: list[dict[str, Json]] = []
    seen, taken = set[str](), set[str]()
    for message in history:
        if message.role == "tool":
            if message.call not in seen:
                raise ModelError(f"the conversation answers a call nobody made (`{message.call}`); start a new session")
            continue
        own = message.wire if message.wire is not None and message.wire.endpoint == endpoint else None
        fields = read_fields(own.fields) if own is not None else {}
        if message.calls:
            if any(call.wire_id == call.id for call in message.calls):
                # Calls that were read from it stand beside the rest of it.
                fields.pop("content", None)
            if endpoint is None:
                ids = [spelled.to_wire(call.id) for call in message.calls]
            else:
                ids = list(_choose_ids(message.calls, own is not None, taken))
            said = _format_calling(message, names, ids, own)
            content = fields.get("content", said["content"])
            result.append({**said, **fields, **said, "content": content})
            for call, wire_id in zip(message.calls, ids, strict=True):
                if call.id in seen:
                    raise ModelError(f"the conversation holds two calls with the id `{call.id}`; start a new session")
                seen.add(call.id)
                answer = answers.get(call.id, UNANSWERED)
                result.append({"role": "tool", "tool_call_id": wire_id, "content": answer})
        elif message.text or message.role != "assistant":
            fields.pop("tool_calls", None)
            said = {"role": message.role, "content": message.text}
            result.append({**said, **fields, "role": message.role})
    return result


def _choose_ids(calls: Sequence[ToolCall], are_own: bool, taken: set[str]) -> Iterator[str]:
    """Yield an id for each call of a message, which joins those taken.

    It is the one its endpoint gave, else one made of ours that every endpoint takes.
    """
    for call in calls:
        chosen, attempt = call.wire_id if are_own and call.wire_id != call.id else "", 0
        while not chosen or chosen in taken:
            chosen = hashlib.sha256(f"{call.id}:{attempt}".encode("utf-8", "surrogatepass")).hexdigest()[:_ID]
            attempt += 1
        taken.add(chosen)
        yield chosen


def _index_answers(history: Sequence[Message]) -> dict[str, str]:
    answers: dict[str, str] = {}
    for message in history:
        if message.role == "tool":
            if message.call in answers:
                raise ModelError(f"the conversation answers the call `{message.call}` twice; start a new session")
            answers[message.call] = message.text
    return answers


def _format_calling(message: Message, names: WireNames, ids: Sequence[str], own: WireMessage | None) -> dict[str, Json]:
    calls: list[Json] = []
    for at, (call, wire_id) in enumerate(zip(message.calls, ids, strict=True)):
        fields = own.read_call(at, len(ids)) if own is not None else {}
        function = fields.get("function")
        inner = function if isinstance(function, dict) else {}
        said = {**inner, "name": names.to_wire(call.name), "arguments": _format_arguments(call)}
        made: dict[str, Json] = {"id": wire_id, "type": "function", "function": said}
        calls.append({**made, **fields, **made})
    return {"role": "assistant", "content": message.text or None, "tool_calls": calls}


def _format_arguments(call: ToolCall) -> str:
    """Return arguments every endpoint can parse: many refuse a whole conversation for one call they cannot."""
    return call.raw if call.arguments is not None else json.dumps({"unreadable_arguments": call.raw})


class StoredMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message in its stored form."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    call: str
    calls: tuple[RecordedCall, ...]
    wire: WireMessage | None = None


def write_messages(messages: Sequence[Message]) -> bytes:
    kept = [
        StoredMessage(
            role=message.role,
            text=message.text,
            call=message.call,
            calls=tuple(_keep_call(call, message.wire) for call in message.calls),
            wire=message.wire,
        )
        for message in messages
    ]
    return strict_json.canonical([strict_json.dump(message) for message in kept])


def read_messages(data: bytes) -> list[Message]:
    """Return the messages that were kept, so that what is sent is what is in the log; raise InvalidJson for others."""
    kept = strict_json.load(tuple[StoredMessage, ...], strict_json.parse(data.decode(), max_bytes=len(data) + 1))
    return [
        Message(one.role, one.text, tuple(call.call for call in one.calls), one.call, wire=one.wire) for one in kept
    ]


def _keep_call(call: ToolCall, wire: WireMessage | None) -> RecordedCall:
    wire_id = call.wire_id if wire is not None and call.wire_id != call.id else ""
    return RecordedCall(id=call.id, name=call.name, arguments=call.raw, wire_id=wire_id)

"""From an endpoint's answer, whole or in pieces, to a ModelResponse. Every type in an answer is checked first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.agent.models.openai.bad_calls import mend_arguments, mend_name
from foregate.agent.models.openai.endpoint import Endpoint
from foregate.agent.models.openai.refusals import NO_JSON, translate_in_band
from foregate.agent.models.openai.request import OwnFields, mend_surrogates
from foregate.agent.models.openai.retries import Transient
from foregate.schemas import strict_json
from foregate.schemas.errors import ModelError
from foregate.schemas.message import WireNames
from foregate.schemas.model_response import (
    FINISH_REASONS,
    REFUSED,
    Follower,
    ModelResponse,
    Usage,
    WireMessage,
    write_fields,
)
from foregate.schemas.strict_json import Json
from foregate.schemas.thoughts import ThoughtSplitter
from foregate.schemas.tool_call import SentCall, ToolCall

_OTHER_WORDS = {
    "tool_calls": "function_call tool_use",
    "stop": "end_turn stop_sequence eos eos_token complete completed",
    "length": "max_tokens model_length max_output_tokens model_context_window_exceeded",
    "content_filter": "safety recitation blocklist prohibited_content spii guardrail_intervened sensitive refusal",
}
FINISHES = {word: ours for ours, words in _OTHER_WORDS.items() for word in words.split()}
"""What endpoints call our finish reasons, in lower case."""
_FAILED = ("error", "insufficient_system_resource", "network_error")
"""Finish reasons of an answer that its server gave up."""

CALL_OVERHEAD = 64
"""What a call weighs beside its text, so that a million empty calls are too many."""

LONGEST_LABEL = 256
LONGEST_ID = 64 * 1024
"""Characters of a call's id: some providers carry the signature of what was thought in it."""
_THOUGHTS = ("reasoning_content", "reasoning")
"""The fields in which endpoints send what was thought."""
_KNOWN = frozenset({"content", "function_call", "role", "tool_calls"})
_CALL, _FUNCTION = frozenset({"function", "id", "index", "type"}), frozenset({"arguments", "name"})
_LEGACY = "function_call"
UNNAMED = "unnamed"
"""The name of a call that came without one, or with one that is no text."""
LONGEST_COMPLETE = 16 * 1024
"""Arguments beyond this are never tried for completeness while they arrive, which would cost time squared."""

MOST_TOKENS = 2**53 - 1


class Prices(Struct, frozen=True):
    """Micro-units of the operator's currency per million tokens."""

    input: int = 0
    output: int = 0

    def build_usage(self, reported: Json) -> Usage:
        """Return the usage an endpoint reported, with its cost rounded up; what is no sound number counts as 0."""
        reported = reported if isinstance(reported, Mapping) else {}
        read, written = _count(reported.get("prompt_tokens")), _count(reported.get("completion_tokens"))
        return Usage(read, written, min(-(-(read * self.input + written * self.output) // 1_000_000), MOST_TOKENS))


class Emitter(Follower):
    """Hands on words and calls as they come. Before what takes the place of some already handed on, it says so."""

    begun = False

    def begin(self) -> None:
        """Begin an attempt: what an earlier one said is void, and whoever follows is told."""
        if self.begun:
            self.begun = False
            self.restart("the answer was cut off and begins again")

    def __call__(self, piece: str) -> None:
        """Hand on a piece of text."""
        self.begun = True
        super().__call__(piece)

    def call(self, call: ToolCall) -> None:
        """Hand on a call that is complete."""
        self.begun = True
        super().call(call)


class _Call(Struct):
    wire_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    own: OwnFields = field(default_factory=OwnFields)
    is_legacy: bool = False

    @property
    def said(self) -> tuple[str, str]:
        """The name and the arguments so far."""
        return self.name, "".join(self.pieces)

    def is_complete(self) -> bool:
        """Whether the arguments so far are a whole JSON object already."""
        ends = bool(self.pieces) and self.pieces[-1].rstrip().endswith("}")
        if not ends or sum(map(len, self.pieces)) > LONGEST_COMPLETE:
            return False
        try:
            return isinstance(json.loads("".join(self.pieces)), dict)
        except (ValueError, RecursionError):
            return False


class Assembler:
    """Takes an answer, or its chunks in order, and makes the response of them.

    `limit` bounds the characters of text and reasoning, and as many again of calls. `add` raises Transient for what
    is no answer, InBand for a refusal, ModelError beyond the limit.
    """

    def __init__(self, names: WireNames, emitter: Emitter, endpoint: Endpoint, limit: int) -> None:
        self._names, self._emitter, self._endpoint, self._limit = names, emitter, endpoint, limit
        self._text: list[str] = []
        self._splitter, self._thoughts = ThoughtSplitter(), list[str]()
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._latest: dict[Json, _Call] = {}
        self._half = ""
        self._words = self._called = 0
        self._refused = self._is_unnamed = False
        self._own = OwnFields()
        self._in_parts = False
        self._plain: list[str] = []
        self._in_turn = True
        self._usage: Json = None
        self._model = self._finish = ""
        self.complete = False
        """Whether the endpoint has said that nothing more comes: a finish reason, or the whole message."""

    def add(self, payload: Json) -> None:
        """Take in a whole answer or one chunk of a stream."""
        if isinstance(payload, list) and any(item.get("error") for item in _objects(payload[:1])):
            raise translate_in_band(payload)
        if not isinstance(payload, Mapping):
            raise Transient(f"{self._endpoint.url} sent an answer that is not a JSON object", NO_JSON)
        if payload.get("error"):
            raise translate_in_band(payload["error"])
        self._model = self._model or _string(payload.get("model"))
        if isinstance(payload.get("usage"), Mapping):
            self._usage = payload["usage"]
        for choice in _objects(payload.get("choices")):
            # Only one answer is asked for; another one would be mixed into it.
            if choice.get("index", 0) in (0, None):
                self._add_choice(choice)

    def end(self) -> None:
        """Take in that the endpoint says no more comes.

        Without a finish reason what has come is whole where its calls are, or where the reason came and was empty.
        """
        whole = bool(self._calls) and all(call.is_complete() for call in self._calls)
        self.complete = self.complete or whole or self._is_unnamed

    def build_response(self, model: str, prices: Prices, notes: tuple[str, ...]) -> ModelResponse:
        """Return what was said; call it once, after the last chunk."""
        self._emit(self._half, last=True)
        thought = "".join(self._thoughts).strip()
        text, reasoning = "".join(self._text), mend_surrogates("".join(self._reasoning))
        reasoning += f"\n{thought}" if reasoning and thought else thought
        said = self._finish.lower()
        finish = FINISHES.get(said, said)
        if finish not in FINISH_REASONS:
            shown = self._endpoint.clean(self._finish) or "none"
            notes = (*notes, f"the endpoint gave no known finish reason: {shown}")
            finish = "other"
        once = self._list_calls()
        calls = tuple(self._build_call(call) for call in once)
        if any(one.has_left_out for one in (self._own, *(call.own for call in once))):
            notes = (*notes, "a field of the endpoint's own is nested too deep: it was left out")
        if self._refused:
            notes = (*notes, REFUSED)
        if self._usage is None:
            notes = (*notes, "the endpoint reported no usage")
        return ModelResponse(
            text=text,
            calls=calls,
            reasoning=reasoning,
            usage=prices.build_usage(self._usage),
            finish_reason="tool_calls" if calls and finish == "stop" else finish,
            model=self._endpoint.clean(self._model) or model,
            notes=notes,
            wire=self._build_wire(self._endpoint.mark(model), once, text, reasoning),
        )

    def _build_wire(self, mark: str, calls: Sequence[_Call], text: str, reasoning: str) -> WireMessage:
        """Return what only the endpoint understands of the message: what it holds otherwise than a response does."""
        own = {name: value for name, value in self._own.end().items() if value or name in _THOUGHTS}
        if not self._in_parts and "".join(self._plain) != text:
            own["content"] = "".join(self._plain)
        thought = next((name for name in _THOUGHTS if own.get(name) == reasoning), "")
        own.pop(thought, None)
        of_calls = tuple(write_fields(call.own.end()) for call in calls)
        return WireMessage(mark, write_fields(own), of_calls if any(of_calls) else (), thought)

    def _list_calls(self) -> list[_Call]:
        """Return the calls, each once: an endpoint may send one again, as a whole or in the form of older ones."""
        found: dict[tuple[str, str, str], _Call] = {}
        newer = {call.said for call in self._calls if not call.is_legacy}
        for number, call in enumerate(self._calls):
            if not call.is_legacy or call.said not in newer:
                found.setdefault((call.wire_id or f"{number}", *call.said), call)
        return list(found.values())

    def _add_choice(self, choice: Mapping[str, Json]) -> None:
        if choice.get("error") or choice.get("finish_reason") in _FAILED:
            raise translate_in_band(choice.get("error") or f"finish reason `{choice['finish_reason']}`")
        whole = isinstance(choice.get("message"), Mapping)
        delta = choice["message"] if whole else choice.get("delta")
        if isinstance(delta, Mapping):
            self._add_content(delta)
            self._add_own(delta)
            for item in _objects(delta.get("tool_calls")):
                self._add_call(item, whole)
            legacy = delta.get("function_call")
            if isinstance(legacy, Mapping):
                self._add_call({"index": _LEGACY, "function": legacy}, False)
        self._finish = _string(choice.get("finish_reason")) or self._finish
        self._is_unnamed = self._is_unnamed or choice.get("finish_reason") == ""
        self.complete = self.complete or whole or bool(self._finish)

    def _add_content(self, delta: Mapping[str, Json]) -> None:
        thought = _string(delta.get("reasoning_content")) or _string(delta.get("reasoning"))
        thought += _read_thinking(delta.get("content"))
        refusal = _string(delta.get("refusal"))
        self._refused = self._refused or bool(refusal)
        said = _read_words(delta.get("content")) + refusal
        self._words += len(thought) + len(said)
        if self._words > self._limit:
            raise self._build_size_error("text")
        content = delta.get("content")
        if isinstance(content, str):
            self._plain.append(content)
        if isinstance(content, list) or (content and self._in_parts):
            parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
            before = [] if self._in_parts else [{"type": "text", "text": one} for one in self._plain if one]
            self._in_parts = True
            self._words += max(0, self._own.add({"content": [*before, *parts]}) - len(thought) - len(said))
        if thought:
            self._reasoning.append(thought)
        if said:
            self._emit(self._half + said)

    def _add_own(self, delta: Mapping[str, Json]) -> None:
        own = {name: value for name, value in delta.items() if name not in _KNOWN}
        if own:
            # As thoughts.
            counted = sum(len(_string(own.get(name))) for name in _THOUGHTS)
            self._words += self._own.add(own) - counted
            if self._words > self._limit:
                raise self._build_size_error("text")

    def _emit(self, text: str, last: bool = False) -> None:
        """Keep and hand on text; the first half of a surrogate pair waits for its second."""
        waits = not last and "\ud800" <= text[-1:] <= "\udbff"
        self._half = text[-1:] if waits else ""
        piece = mend_surrogates(text[:-1] if waits else text)
        found = self._splitter.feed(piece, last=last)
        self._thoughts += found.thoughts
        if found.voids and self._text:
            self._text.clear()
            self._emitter.restart("this was thought, and no answer")
        if words := found.said:
            self._text.append(words)
            self._emitter(words)

    def _add_call(self, item: Mapping[str, Json], whole: bool) -> None:
        function = item.get("function")
        function = function if isinstance(function, Mapping) else {}
        name, wire_id = _string(function.get("name")), _string(item.get("id"))
        piece = _read_arguments(function.get("arguments"))
        self._called += len(name) + len(wire_id) + len(piece)
        call = None if whole else self._find_continued_call(item.get("index"), wire_id, name, piece)
        if call is None:
            self._called += CALL_OVERHEAD
            if not whole:
                self._announce_call()
            call = _Call()
            self._calls.append(call)
        if self._called > self._limit:
            raise self._build_size_error("tool calls")
        self._latest[_key(item.get("index"))] = call
        call.wire_id = call.wire_id or wire_id
        call.is_legacy = item.get("index") == _LEGACY
        # Some endpoints send the name with each piece, others the name itself in pieces.
        repeated = call.name == name and (call.pieces or self._names.is_known(name))
        if not repeated:
            call.name += name
        if piece:
            call.pieces.append(piece)
        own = {key: value for key, value in item.items() if key not in _CALL}
        inner = {key: value for key, value in function.items() if key not in _FUNCTION}
        if own or inner:
            own |= {"function": inner} if inner else {}
            self._called += call.own.add(own)

    def _announce_call(self) -> None:
        """Hand on the newest call when another begins; from one on whose arguments are not all there, all wait."""
        if self._calls and self._in_turn:
            self._in_turn = self._calls[-1].is_complete()
            if self._in_turn:
                self._emitter.call(self._build_call(self._calls[-1]))

    def _find_continued_call(self, index: Json, wire_id: str, name: str, piece: str) -> _Call | None:
        """Return the call a piece continues, None when it begins one.

        Some endpoints give every call the index 0, some give all the same id, and some repeat the name in each
        piece; so a new call is one that brings a name and either another id or arguments where all were there.
        """
        call = self._latest.get(_key(index))
        if call is None and not isinstance(index, (int, str)) and not name and self._calls:
            return self._calls[-1]
        if call is None:
            return None
        if wire_id and call.wire_id and wire_id != call.wire_id:
            same = [other for other in self._calls if other.wire_id == wire_id]
            return same[-1] if same else (None if name else call)
        return None if name and piece.strip() and call.is_complete() else call

    def _build_call(self, call: _Call) -> ToolCall:
        raw, said = mend_surrogates("".join(call.pieces)), mend_surrogates(call.name)
        name = self._names.to_own(mend_name(said, self._names.is_known))
        if len(name) > LONGEST_LABEL and len(call.name) > LONGEST_LABEL:
            name = f"{name[:LONGEST_LABEL]} ..."
        wire_id = mend_surrogates(call.wire_id) if len(call.wire_id) <= LONGEST_ID else ""
        if not name.strip():
            return ToolCall.from_defect(UNNAMED, raw, "this call names no tool; send it with a name", wire_id=wire_id)
        read = ToolCall.parse(name, raw if raw.strip() else "{}", wire_id=wire_id)
        if read.arguments is None and (meant := mend_arguments(raw)) != raw:
            read = ToolCall.parse(name, meant, wire_id=wire_id)
        is_mended = read.raw != raw and raw.strip()
        is_renamed = not self._names.is_known(said) and self._names.is_known(self._names.to_wire(name))
        if is_mended or is_renamed:
            return replace(read, sent=SentCall(*map(strict_json.scrub, (said, raw))))
        return read

    def _build_size_error(self, what: str) -> ModelError:
        return ModelError(f"the response holds more than {self._limit} characters of {what}; ask for less at once")


def _key(index: Json) -> Json:
    return index if isinstance(index, (int, str)) else None


def _string(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _objects(value: Json) -> list[Mapping[str, Json]]:
    """Return the objects of a list; some endpoints send one by itself."""
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, Mapping)]


def _count(value: Json) -> int:
    return min(max(value, 0), MOST_TOKENS) if isinstance(value, int) and not isinstance(value, bool) else 0


def _read_words(content: Json) -> str:
    """Return the text of a content, which is a string or a list of typed parts."""
    parts = [_string(part.get("text")) for part in _objects(content) if part.get("type") == "text"]
    return _string(content) or "".join(parts)


def _read_thinking(content: Json) -> str:
    parts = [part.get("thinking") for part in _objects(content) if part.get("type") == "thinking"]
    return "".join(_string(part) or _read_words(part) for part in parts)


def _read_arguments(value: Json) -> str:
    """Return arguments as text; some endpoints send the object itself."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "nested too deep"

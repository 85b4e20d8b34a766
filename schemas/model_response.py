"""What a model said, the only thing an adapter or a dialect returns; the order its calls run in, and who follows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.noun import Noun
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import SentCall, ToolCall

BlockKind = Literal["parallel", "sequential"]
_KINDS = ("parallel", "sequential")
_DEEPEST = 16


class WireMessage(Noun, frozen=True):
    """What an endpoint said beside the words and the calls that every endpoint has.

    `endpoint` names it and the model. `fields` is a JSON object with the message's other fields, or with those that say
    its words otherwise; "" for none. `calls` holds such an object for each call, "" where it has none; it is empty
    where no call has one. `thought` names the field that held exactly the reasoning, which is not stored twice. A log
    holds the objects as texts, for they may hold anything.

    >>> WireMessage("a1", thought="reasoning_content").with_reasoning("I look first.").fields
    '{"reasoning_content":"I look first."}'
    """

    endpoint: str
    fields: str = ""
    calls: tuple[str, ...] = ()
    thought: str = ""

    def with_reasoning(self, reasoning: str) -> WireMessage:
        """Return the same with the reasoning in the field that held it."""
        if not self.thought:
            return self
        fields = {**read_fields(self.fields), self.thought: reasoning}
        return replace(self, fields=write_fields(fields), thought="")

    def map_texts(self, change: Callable[[str], str]) -> WireMessage:
        """Return the same with each text in its objects changed."""
        fields, calls = _map_texts(self.fields, change), tuple(_map_texts(one, change) for one in self.calls)
        return self if (fields, calls) == (self.fields, self.calls) else replace(self, fields=fields, calls=calls)

    def read_call(self, at: int, count: int) -> dict[str, Json]:
        """Return the own fields of the call in a place, counted from 0, of a message with so many calls."""
        return read_fields(self.calls[at]) if len(self.calls) == count else {}


def write_fields(fields: Mapping[str, Json]) -> str:
    """Return fields as the text that is kept of them, "" for none."""
    return json.dumps(fields, separators=(",", ":")) if fields else ""


def read_fields(text: str) -> dict[str, Json]:
    """Return the fields a text holds; what is no JSON object counts as none."""
    if not text or strict_json.is_too_deep(text):
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _map_texts(text: str, change: Callable[[str], str]) -> str:
    fields = read_fields(text)
    if not fields:
        return change(text)
    changed = {name: _map_value(value, change) for name, value in fields.items()}
    return text if changed == fields else write_fields(changed)


def _map_value(value: Json, change: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_value(item, change) for key, item in value.items()}
    return [_map_value(item, change) for item in value] if isinstance(value, (list, tuple)) else value


class Block(Struct, frozen=True, gc=False):
    """A block of a response. An item is the place of a call, counted from 0 as the calls were written, or a block."""

    kind: BlockKind
    items: tuple[int | Block, ...]

    def find_places(self) -> Iterator[int]:
        """Yield the places of the calls in the block and in the blocks inside it, in written order."""
        for item in self.items:
            yield from (item,) if isinstance(item, int) else item.find_places()

    def fit_to(self, count: int) -> Block:
        """Return the block for that many calls, as a log can hold it.

        A place there is no call in, or that was named before, is left out; blocks nested deeper than a log holds run in
        turn.
        """
        return self._build_fitting(set(range(count)), 0)

    def _build_fitting(self, left: set[int], depth: int) -> Block:
        if depth == _DEEPEST:
            return Block("sequential", tuple(_take_places(self.find_places(), left)))
        items: list[int | Block] = []
        for item in self.items:
            items += _take_places([item], left) if isinstance(item, int) else [item._build_fitting(left, depth + 1)]
        return Block(self.kind, tuple(items))

    def restrict_to(self, places: Sequence[int]) -> Block | None:
        """Return what is left of the block when only the calls in `places` are there, numbered as they stand in it."""
        return self._renumber({place: number for number, place in enumerate(places)})

    def _renumber(self, numbers: Mapping[int, int]) -> Block | None:
        items = (numbers.get(item) if isinstance(item, int) else item._renumber(numbers) for item in self.items)
        kept = tuple(item for item in items if item is not None)
        return Block(self.kind, kept) if kept else None

    def find_step(self, place: int, number: int) -> int | Block | None:
        """Return the item that is step `number`, from 1, for the call in `place`; None where there is no such.

        It is that item of the innermost sequential block around the call that has so many before the call.
        """
        for at, item in enumerate(self.items):
            if item == place or (isinstance(item, Block) and place in item.find_places()):
                inner = item.find_step(place, number) if isinstance(item, Block) else None
                here = self.kind == "sequential" and 0 < number <= at
                return inner if inner is not None or not here else self.items[number - 1]
        return None

    def to_json(self) -> Json:
        """Return the block as a list: its kind, then its items."""
        return [self.kind, *(item if isinstance(item, int) else item.to_json() for item in self.items)]

    @classmethod
    def from_json(cls, data: Json, depth: int = 0) -> Block:
        """Return the block a list describes; raise InvalidJson for anything else."""
        if not isinstance(data, list) or not data or data[0] not in _KINDS or depth > _DEEPEST:
            raise InvalidJson("not a block of calls: a list of `parallel` or `sequential` and its items")
        items: list[int | Block] = []
        for item in data[1:]:
            if isinstance(item, list):
                items.append(cls.from_json(item, depth + 1))
            elif isinstance(item, int) and not isinstance(item, bool) and item >= 0:
                items.append(item)
            else:
                raise InvalidJson("not a block of calls: an item is the place of a call, or a block")
        return cls(data[0], tuple(items))


def _take_places(places: Iterable[int], left: set[int]) -> list[int]:
    """Take places out of those left; return the ones that were among them, in order."""
    found = [place for place in dict.fromkeys(places) if place in left]
    left.difference_update(found)
    return found


FINISH_REASONS = ("stop", "tool_calls", "length", "content_filter", "other")
REFUSED = "the model refused the request"
"""The note of a response in which the endpoint marked the text as a refusal."""


class Usage(Noun, frozen=True):
    """Tokens of one request, and its cost in micro-units of the currency the operator counts in."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0


_WORDS = ("text", "reasoning", "raw")


class ModelResponse(Struct, frozen=True, gc=False):
    """Text, calls and usage. `reasoning` is kept and never parsed as a plan, a call or an answer.

    `finish_reason` is one of FINISH_REASONS; `length` means truncated, and a truncated response is never judged.
    `order` says how the calls are meant to run, None for as they are written; a call in none of its blocks runs before
    them. `deferred` are the places of calls whose arguments name the results of earlier ones. `raw` is what the model
    wrote where calls were read from its text; `text` is then the rest. `wire` is what only its endpoint understands.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = "stop"
    model: str = ""
    notes: tuple[str, ...] = ()
    order: Block | None = None
    deferred: tuple[int, ...] = ()
    raw: str = ""
    wire: WireMessage | None = None

    def stamp_calls(self, seq: int) -> ModelResponse:
        """Return the response with storable text and its calls, read anew, under the session's own ids for event `seq`.

        So it is what reading its recorded form gives, whoever made it.
        """
        calls = tuple(
            [
                restore_call(f"c{seq}.{index}", one.wire_id, one.name, one.raw, one.defect, one.sent)
                for index, one in enumerate(self.calls, start=1)
            ]
        )
        words = {name: strict_json.scrub(text) for name in _WORDS if not (text := getattr(self, name)).isascii()}
        if self.order is None and not self.deferred:
            return replace(self, **words, calls=calls)
        order = self.order.fit_to(len(calls)) if self.order is not None else None
        deferred = tuple(place for place in sorted(set(self.deferred)) if 0 <= place < len(calls))
        return replace(self, **words, calls=calls, order=order, deferred=deferred)


class Follower:
    """Follows a response and passes on what it gets; `to` may take words only.

    It is passed as `on_text`. A model that knows only words calls it with each part of them; one that knows more tells
    it of calls, and of a new beginning.
    """

    def __init__(self, to: Callable[[str], None] | None = None) -> None:
        self._to = to

    def __call__(self, piece: str) -> None:
        """A piece of the text has come."""
        if self._to is not None:
            self._to(piece)

    def call(self, call: ToolCall) -> None:
        """A call is complete, though the response goes on; calls come in written order."""
        if isinstance(self._to, Follower):
            self._to.call(call)

    def restart(self, why: str) -> None:
        """All that came is void: the response begins again. One who takes only words is told in a line of them."""
        if isinstance(self._to, Follower):
            self._to.restart(why)
        elif self._to is not None:
            self._to(f"\n[{why}]\n")


class RecordedCall(Noun, frozen=True, kw_only=True):
    """A call with its arguments as text, to be parsed again by whoever reads it; `sent` as in ToolCall.

    `defect` says why the call cannot be read, "" where it can. `wire_id` is "" where it is the same as `id`.
    """

    id: str
    name: str
    arguments: str
    wire_id: str = ""
    defect: str = ""
    sent: SentCall | None = None

    @classmethod
    def of(cls, call: ToolCall) -> RecordedCall:
        """Return the recorded form of a call."""
        own, wire, raw = call.id, call.wire_id, call.raw
        return cls(id=own, wire_id=wire, name=call.name, arguments=raw, defect=call.defect, sent=call.sent)

    @property
    def call(self) -> ToolCall:
        """The call, its arguments parsed anew."""
        return restore_call(self.id, self.wire_id, self.name, self.arguments, self.defect, self.sent)


def restore_call(own: str, wire: str, name: str, raw: str, defect: str, sent: SentCall | None) -> ToolCall:
    """Return a call under the session's own id as reading its recorded form gives it, its arguments parsed anew."""
    if defect:
        read = ToolCall.from_defect(name, raw, defect, id=own, wire_id=wire)
    else:
        read = ToolCall.parse(name, raw, id=own, wire_id=wire)
    return replace(read, sent=sent) if sent is not None else read


def record_calls(calls: Iterable[ToolCall]) -> tuple[RecordedCall, ...]:
    """Return the recorded forms of calls."""
    return tuple(map(RecordedCall.of, calls))

"""What a model said: the only thing an adapter or a dialect returns."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.schemas import codec, strict_json
from foregate.schemas.order import Block
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall

FINISH_REASONS = ("stop", "tool_calls", "length", "content_filter", "other")
REFUSED = "the model refused the request"
"""The note of a response in which the endpoint marked the text as a refusal."""


class Usage(Struct, frozen=True):
    """Tokens of one request, and its cost in micro-units of the currency the operator counts in."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0


class ModelResponse(Struct, frozen=True):
    """Text, calls and usage. `reasoning` is kept and never parsed as a plan, a call or an answer.

    `finish_reason` is one of FINISH_REASONS; `length` means truncated, and a truncated response is never judged.
    `order` says how the calls are meant to run, None for as they are written; a call in none of its blocks runs before
    them. `deferred` are the places of calls whose arguments name the results of earlier ones.
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

    def stamped(self, seq: int) -> ModelResponse:
        """Return the response with storable text and its calls, read anew, under the session's own ids for event `seq`.

        So it is what reading its recorded form gives, whoever made it.
        """
        calls = tuple(read_again(call, f"c{seq}.{index}") for index, call in enumerate(self.calls, start=1))
        text, reasoning = strict_json.scrub(self.text), strict_json.scrub(self.reasoning)
        if self.order is None and not self.deferred:
            return replace(self, text=text, reasoning=reasoning, calls=calls)
        order = self.order.over(len(calls)) if self.order is not None else None
        deferred = tuple(place for place in sorted(set(self.deferred)) if 0 <= place < len(calls))
        return replace(self, text=text, reasoning=reasoning, calls=calls, order=order, deferred=deferred)

    def to_json(self) -> Json:
        """Return the event body: calls with their arguments as sent, to be parsed again by whoever reads them."""
        body: dict[str, Json] = {
            "text": self.text,
            "reasoning": self.reasoning,
            "calls": written_calls(self.calls),
            "usage": {
                "input_tokens": self.usage.input_tokens,
                "output_tokens": self.usage.output_tokens,
                "cost": self.usage.cost,
            },
            "finish_reason": self.finish_reason,
            "model": self.model,
            "notes": list(self.notes),
        }
        if self.order is not None:
            body["order"] = self.order.to_json()
        if self.deferred:
            body["deferred"] = list(self.deferred)
        return codec.remember(self, body)

    @classmethod
    def from_json(cls, body: Json) -> ModelResponse:
        """Return the response an event body holds."""
        return codec.written(cls, body) or cls(
            text=body["text"],
            calls=tuple(call_of(call) for call in body["calls"]),
            reasoning=body["reasoning"],
            usage=Usage(**body["usage"]),
            finish_reason=body["finish_reason"],
            model=body["model"],
            notes=tuple(body["notes"]),
            order=Block.from_json(body["order"]) if "order" in body else None,
            deferred=tuple(body.get("deferred", ())),
        )


def read_again(call: ToolCall, id: str) -> ToolCall:  # noqa: A002
    """Return a call, read anew from its text, under another id; one that could not be read keeps its defect."""
    if call.defect:
        return ToolCall.broken(call.name, call.raw, call.defect, id=id, wire_id=call.wire_id)
    return ToolCall.parse(call.name, call.raw, id=id, wire_id=call.wire_id)


def written_calls(calls: Iterable[ToolCall]) -> list[Json]:
    """Return calls as they are recorded: with their arguments as sent, and why they cannot be read if they cannot."""
    return [
        {"id": call.id, "wire_id": call.wire_id, "name": call.name, "arguments": call.raw}
        | ({"defect": call.defect} if call.defect else {})
        for call in calls
    ]


def call_of(body: Json) -> ToolCall:
    """Return the call a recorded form holds."""
    read = partial(ToolCall.broken, defect=body["defect"]) if body.get("defect") else ToolCall.parse
    return read(body["name"], body["arguments"], id=body["id"], wire_id=body.get("wire_id", ""))

"""What a model said: the only thing an adapter or a dialect returns."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.schemas import codec, strict_json
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
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = "stop"
    model: str = ""
    notes: tuple[str, ...] = ()

    def stamped(self, seq: int) -> ModelResponse:
        """Return the response with storable text and its calls, read anew, under the session's own ids for event `seq`.

        So it is what reading its recorded form gives, whoever made it.
        """
        calls = tuple(
            ToolCall.parse(call.name, call.raw, id=f"c{seq}.{index}", wire_id=call.wire_id)
            for index, call in enumerate(self.calls, start=1)
        )
        return replace(
            self, text=strict_json.scrub(self.text), reasoning=strict_json.scrub(self.reasoning), calls=calls
        )

    def to_json(self) -> Json:
        """Return the event body: calls with their arguments as sent, to be parsed again by whoever reads them."""
        body = {
            "text": self.text,
            "reasoning": self.reasoning,
            "calls": [
                {"id": call.id, "wire_id": call.wire_id, "name": call.name, "arguments": call.raw}
                for call in self.calls
            ],
            "usage": {
                "input_tokens": self.usage.input_tokens,
                "output_tokens": self.usage.output_tokens,
                "cost": self.usage.cost,
            },
            "finish_reason": self.finish_reason,
            "model": self.model,
            "notes": list(self.notes),
        }
        return codec.remember(self, body)

    @classmethod
    def from_json(cls, body: Json) -> ModelResponse:
        """Return the response an event body holds."""
        return codec.written(cls, body) or cls(
            text=body["text"],
            calls=tuple(
                ToolCall.parse(call["name"], call["arguments"], id=call["id"], wire_id=call["wire_id"])
                for call in body["calls"]
            ),
            reasoning=body["reasoning"],
            usage=Usage(**body["usage"]),
            finish_reason=body["finish_reason"],
            model=body["model"],
            notes=tuple(body["notes"]),
        )

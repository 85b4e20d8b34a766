"""What a model said: the only thing an adapter or a dialect returns."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.schemas import strict_json
from foregate.schemas.order import Block
from foregate.schemas.tool_call import ToolCall

FINISH_REASONS = ("stop", "tool_calls", "length", "content_filter", "other")
REFUSED = "the model refused the request"
"""The note of a response in which the endpoint marked the text as a refusal."""


class Usage(Struct, frozen=True, forbid_unknown_fields=True):
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

    def stamp_calls(self, seq: int) -> ModelResponse:
        """Return the response with storable text and its calls, read anew, under the session's own ids for event `seq`.

        So it is what reading its recorded form gives, whoever made it.
        """
        calls = tuple(reread_call(call, f"c{seq}.{index}") for index, call in enumerate(self.calls, start=1))
        text, reasoning = strict_json.scrub(self.text), strict_json.scrub(self.reasoning)
        if self.order is None and not self.deferred:
            return replace(self, text=text, reasoning=reasoning, calls=calls)
        order = self.order.fit_to(len(calls)) if self.order is not None else None
        deferred = tuple(place for place in sorted(set(self.deferred)) if 0 <= place < len(calls))
        return replace(self, text=text, reasoning=reasoning, calls=calls, order=order, deferred=deferred)


def reread_call(call: ToolCall, id: str) -> ToolCall:  # noqa: A002
    """Return a call, read anew from its text, under another id; one that could not be read keeps its defect."""
    if call.defect:
        return ToolCall.from_defect(call.name, call.raw, call.defect, id=id, wire_id=call.wire_id)
    return ToolCall.parse(call.name, call.raw, id=id, wire_id=call.wire_id)

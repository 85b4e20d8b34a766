"""A call as the log holds it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from foregate.schemas.noun import Noun
from foregate.schemas.tool_call import SentCall, ToolCall


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

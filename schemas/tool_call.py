"""One call of a tool, as the model asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json


class ToolCall(Struct, frozen=True):
    """A call under the session's own id; `wire_id` is what the endpoint named it, which endpoints reuse.

    `raw` is the arguments' JSON as sent; `arguments` what strict parsing made of it, or None with `defect`, a sentence
    for the model. `digest` is the SHA-256 over the canonical JSON of name and arguments (of the raw text when
    unparsable).
    """

    id: str
    wire_id: str
    name: str
    raw: str
    arguments: Mapping[str, Json] | None
    defect: str
    digest: str

    @classmethod
    def parse(cls, name: str, raw: str, *, id: str = "", wire_id: str = "") -> ToolCall:  # noqa: A002
        """Read the arguments strictly; what cannot be read is kept as a defect, never raised."""
        name, raw = strict_json.scrub(name), strict_json.scrub(raw)
        read = _read_again if len(raw) <= _SHORT else _read_arguments
        arguments, defect, digest = read(name, raw)
        return cls(id, wire_id or id, name, raw, arguments, defect, digest)

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, Json], *, id: str = "") -> ToolCall:  # noqa: A002
        """Return the call a program makes, for remedies, checks and tests."""
        return cls.parse(name, strict_json.canonical(arguments).decode(), id=id)

    @classmethod
    def from_defect(cls, name: str, raw: str, defect: str, *, id: str = "", wire_id: str = "") -> ToolCall:  # noqa: A002
        """Return a call that was begun and cannot be read; `defect` tells the model what is wrong and what to do."""
        name, raw = strict_json.scrub(name), strict_json.scrub(raw)
        digest = strict_json.digest({"name": name, "raw": raw})
        return cls(id, wire_id or id, name, raw, None, strict_json.scrub(defect), digest)


class RecordedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call with its arguments as sent, to be parsed again by whoever reads it.

    `defect` says why the call cannot be read, "" where it can. `wire_id` is "" where it is the same as `id`.
    """

    id: str
    name: str
    arguments: str
    wire_id: str = ""
    defect: str = ""

    @classmethod
    def of(cls, call: ToolCall) -> RecordedCall:
        """Return the recorded form of a call."""
        return cls(id=call.id, wire_id=call.wire_id, name=call.name, arguments=call.raw, defect=call.defect)

    @property
    def call(self) -> ToolCall:
        """The call, its arguments parsed anew."""
        if self.defect:
            return ToolCall.from_defect(self.name, self.arguments, self.defect, id=self.id, wire_id=self.wire_id)
        return ToolCall.parse(self.name, self.arguments, id=self.id, wire_id=self.wire_id)


def record_calls(calls: Iterable[ToolCall]) -> tuple[RecordedCall, ...]:
    """Return the recorded form of calls."""
    return tuple(RecordedCall.of(call) for call in calls)


def _read_arguments(name: str, raw: str) -> tuple[Mapping[str, Json] | None, str, str]:
    """Return the strictly parsed arguments or the defect, and the digest."""
    try:
        value = strict_json.parse(raw)
    except InvalidJson as error:
        return None, str(error), strict_json.digest({"name": name, "raw": raw})
    if not isinstance(value, dict):
        why = "the arguments are not a JSON object; send an object"
        return None, why, strict_json.digest({"name": name, "raw": raw})
    return value, "", strict_json.digest({"name": name, "arguments": value})


_SHORT = 8192
_read_again = lru_cache(maxsize=64)(_read_arguments)
"""A call is read several times on its way from the model to its answer; the last few short ones are remembered."""

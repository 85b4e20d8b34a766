"""What a gate says of one call."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from foregate.schemas.strict_json import Json


class Standing(Enum):
    """How a call stands, from loosest to strictest; rulings are joined by `max`.

    HOLD may be cured and sent again; DENY is final for that digest in its task.
    """

    ALLOW = "allow"
    ASK = "ask"
    HOLD = "hold"
    DENY = "deny"

    def __init__(self, _word: str) -> None:
        self.rank = len(type(self).__members__)
        """0 for ALLOW to 3 for DENY."""
        self.stops = _word in ("hold", "deny")
        """Whether no further gate is asked about the call."""

    def __lt__(self, other: Standing) -> bool:
        return self.rank < other.rank


class Number(Struct, frozen=True, forbid_unknown_fields=True):
    """A measured value against its bound, and the policy path the bound came from."""

    name: str
    value: int
    bound: int
    path: str


class Remedy(Struct, frozen=True, forbid_unknown_fields=True):
    """The call that would cure a hold."""

    tool: str
    arguments: Mapping[str, Json]


class Ruling(Struct, frozen=True, forbid_unknown_fields=True):
    """One gate's answer for one call. `code` is a public name; `message` is what the model is told."""

    standing: Standing
    code: str
    message: str = ""
    remedy: Remedy | None = None
    numbers: tuple[Number, ...] = ()
    rules: tuple[str, ...] = ()
    reason: str = ""

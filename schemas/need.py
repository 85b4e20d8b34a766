"""What a gate must be told before it can judge, and what it was told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from foregate.schemas.strict_json import Json

Who = Literal["planner", "critic", "person"]


class Need(Struct, frozen=True, forbid_unknown_fields=True):
    """A question of `gate` to `who`, for all calls of the response that want it.

    `key` tells needs of one gate apart; `request` is what is asked, as JSON without floats; `calls` are call ids.
    `code` is the code of the ASK behind it; `expires_at` is a UTC time, only for a person.
    """

    gate: str
    who: Who
    key: str
    calls: tuple[str, ...]
    digests: tuple[str, ...]
    request: Mapping[str, Json] = field(default_factory=dict)
    code: str = ""
    expires_at: str = ""


class Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """The recorded answer to a need, bound to what it was asked about.

    `value` is None when there was no usable answer; `error` then says why. `seq` is the event number.
    """

    gate: str
    who: Who
    key: str
    digests: tuple[str, ...]
    survey_hash: str
    policy_hash: str
    value: Mapping[str, Json] | None = None
    error: str = ""
    at: str = ""
    expires_at: str = ""
    seq: int = 0

    @property
    def choice(self) -> str:
        """What a person chose, "" where no one did."""
        return self._text("choice")

    @property
    def words(self) -> str:
        """What a person said with the choice, "" for nothing."""
        return self._text("text")

    def _text(self, key: str) -> str:
        value = (self.value or {}).get(key)
        return value if isinstance(value, str) else ""


class Voided(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer that no longer fits what it was given for, and why."""

    seq: int
    gate: str
    reason: str

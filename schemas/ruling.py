"""What a gate says of one call."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from foregate.schemas.codes import GateCode
from foregate.schemas.standing import Standing
from foregate.schemas.strict_json import Json


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
    code: GateCode
    message: str = ""
    remedy: Remedy | None = None
    numbers: tuple[Number, ...] = ()
    rules: tuple[str, ...] = ()
    reason: str = ""

"""What one gate says of one turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal

from msgspec import Struct, field

from foregate.schemas.codes import GateCode, GateName, get_pass_code
from foregate.schemas.grant import Grant
from foregate.schemas.plan import PlanInForce
from foregate.schemas.ruling import Number, Ruling
from foregate.schemas.standing import Standing
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall


class Consequence(Struct, frozen=True, forbid_unknown_fields=True):
    """What follows for the task: the next request goes without tools, or a person is asked `question`.

    `slots` names what the question asks for; an answered slot is not asked again. `lasts` tells whether tools stay
    away for the next request or for the rest of the task.
    """

    kind: Literal["words_only_next", "ask_user"]
    question: str = ""
    slots: tuple[str, ...] = ()
    lasts: Literal["request", "task"] = "request"


class Opinion(Struct, frozen=True):
    """A ruling for each call the gate was asked about, by call id; a call left out is held as `gate_error`.

    `plan` is a plan the gate accepts and `first` the call it was written for: it is in force once that call is
    allowed. `uses` names the scope items a call uses up; `grants` is leave a person gave with this turn.
    """

    rulings: Mapping[str, Ruling]
    consequence: Consequence | None = None
    detail: Mapping[str, Json] = field(default_factory=dict)
    summary: str = ""
    plan: PlanInForce | None = None
    first: str = ""
    uses: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    grants: tuple[Grant, ...] = ()


def build_pass(gate: GateName, calls: Iterable[ToolCall]) -> Opinion:
    """Return the opinion that lets all `calls` pass, under `<gate>_passed`."""
    ruling = build_allow(get_pass_code(gate))
    return Opinion({call.id: ruling for call in calls})


@lru_cache(maxsize=256)
def build_allow(code: GateCode, numbers: tuple[Number, ...] = ()) -> Ruling:
    """Return leave under `code`, the same one for every call."""
    return Ruling(Standing.ALLOW, code, numbers=numbers)

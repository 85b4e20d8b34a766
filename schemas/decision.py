"""One gate's recorded verdict on one turn: a decision point, addressed `seq.gate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from foregate.schemas.codes import Decider, GateCode
from foregate.schemas.opinion import Consequence
from foregate.schemas.ruling import Number
from foregate.schemas.standing import Standing
from foregate.schemas.strict_json import Json

Mode = Literal["enforce", "shadow", "off"]
Severity = Literal["info", "warning", "error"]

_CALM = ("prelude_ready_for_execution", "critique_not_required", "plan_unavailable_let_go", "verification_passed")


class CallRuling(Struct, frozen=True, forbid_unknown_fields=True):
    """The standing a gate gave one call, under which code and for which reason; the remedy names a tool."""

    call: str
    standing: Standing
    code: GateCode
    message: str = ""
    reason: str = ""


class Decision(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `turn_judged`. `code` is that of the strictest ruling, the first call's on a tie."""

    gate: Decider
    code: GateCode
    mode: Mode = "enforce"
    summary: str = ""
    tool: str = ""
    target: str = ""
    rulings: tuple[CallRuling, ...] = ()
    numbers: tuple[Number, ...] = ()
    rules: tuple[str, ...] = ()
    repetition: str = ""
    consequence: Consequence | None = None
    detail: Mapping[str, Json] = field(default_factory=dict)

    @property
    def severity(self) -> Severity:
        """`info` for accepted, passed, not required and the snapshot; `error` for gate_error; else `warning`."""
        if self.code == "gate_error":
            return "error"
        calm = self.code in _CALM or self.code.endswith(("_passed", "_accepted", "_granted"))
        return "info" if calm else "warning"

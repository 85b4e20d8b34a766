"""Gate `drift`: the request asks for words, and the model wants to act."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from foregate.gates.counts import count_fired
from foregate.policy.policy import Policy
from foregate.policy.risk.request import read_contract
from foregate.schemas.codes import DriftCode, GateName
from foregate.schemas.judgement import Consequence, Mode, Opinion, Ruling, Standing, build_pass
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.turn import Turn

CODE: DriftCode = "text_only_turn_side_effecting_tool_drift"


@dataclass(frozen=True)
class DriftGate:
    """Holds changes where words were asked for; personal memory alone is no drift, nor is anything in a child task."""

    policy: Policy
    name: GateName = "drift"

    @cached_property
    def mode(self) -> Mode:
        return self.policy.drift.mode

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion:
        section = self.policy.drift
        acting = [c for c in live if so_far.facts[c.id].changes and not so_far.facts[c.id].capabilities.personal_memory]
        if not acting or turn.depth > 0 or self.has_held_enough(turn):
            return build_pass(self.name, live)
        wanted, reason = self.read_contract(turn)
        if not wanted:
            return build_pass(self.name, live)
        message = f"this request wants words, nothing changed ({reason}); answer in words"
        held = Ruling(Standing.HOLD, CODE, message, reason=reason)
        clear = Ruling(Standing.ALLOW, "drift_passed")
        ids = {call.id for call in acting}
        return Opinion(
            {call.id: held if call.id in ids else clear for call in live},
            Consequence("words_only_next", lasts=section.lasts),
        )

    def has_held_enough(self, turn: Turn) -> bool:
        """Whether the task was held often enough; never while tools stay away for all of it, called or not."""
        section = self.policy.drift
        bound = section.max_holds if section.lasts == "request" else 0
        return 0 < bound <= count_fired(turn, self.name, self.mode)

    def read_contract(self, turn: Turn) -> tuple[bool, str]:
        """Return whether the request's contract wants words only, and the reason."""
        contract = read_contract(turn.user_messages, self.policy)
        if self.policy.drift.trigger == "contract":
            return contract.text_only == "yes", contract.reason
        neither = contract.expects_mutation != "yes" and contract.requires_observation != "yes"
        return neither, "nothing in it asks for a change or a look"

"""Gate `drift`: the request asks for words, and the model wants to act."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import product

from msgspec import Struct

from foregate.policy.policy import Policy
from foregate.policy.risk.request import read_contract
from foregate.policy.risk.said import asks_for
from foregate.schemas.codes import DriftCode, GateName
from foregate.schemas.judgement import Consequence, Mode, Opinion, Ruling, Standing, build_rulings
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.turn import Turn

CODE: DriftCode = "text_only_turn_side_effecting_tool_drift"


class DriftGate(Struct, frozen=True, dict=True):
    """Holds changes where words were asked for; personal memory alone is no drift, nor is anything in a child task."""

    policy: Policy
    name: GateName = "drift"

    @cached_property
    def mode(self) -> Mode:
        return self.policy.drift.mode

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion:
        section = self.policy.drift
        facts = so_far.facts
        acting = [call for call in live if facts[call.id].changes and not facts[call.id].capabilities.personal_memory]
        reason = self.explain_drift(turn, acting) if acting and turn.depth == 0 else ""
        # a bound, but never while tools stay away for all of the task, called or not
        bound = section.max_holds if reason and section.lasts == "request" else 0
        if not reason or 0 < bound <= turn.count_fired(self.name, self.mode):
            return Opinion(build_rulings(self.name, live, {}))
        message = f"this request wants words, nothing changed ({reason}); answer in words"
        held = dict.fromkeys([call.id for call in acting], Ruling(Standing.HOLD, CODE, message, reason=reason))
        return Opinion(build_rulings(self.name, live, held), Consequence("words_only_next", lasts=section.lasts))

    def explain_drift(self, turn: Turn, acting: Iterable[ToolCall]) -> str:
        """Return why the request wants words only, "" when it does not; `acting` are the changes."""
        contract = read_contract(turn.user_messages, self.policy)
        if self.policy.drift.trigger == "contract":
            return contract.reason if contract.text_only == "yes" else ""
        acts = "yes" in (contract.expects_mutation, contract.requires_observation)
        if not acts and self.policy.drift.wishes == "effects":
            deeds = product(self.policy.mandate.effects, [call.name for call in acting])
            acts = any(asks_for(effect, tool, turn.user_messages, self.policy) for effect, tool in deeds)
        return "" if acts else "nothing in it asks for a change or a look"

"""Gate `uncertainty`: too little is known to change anything, so one question is asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from foregate.policy.policy import Policy
from foregate.schemas.codes import GateName
from foregate.schemas.judgement import Consequence, Mode, Number, Opinion, Ruling, Standing, build_pass
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import CallFacts, ToolCall
from foregate.schemas.turn import Turn

_ALLOW = Standing.ALLOW


class UncertaintyGate(Struct, frozen=True, dict=True):
    """Holds changes whose uncertainty reaches the threshold and names the open slots; observations run."""

    policy: Policy
    name: GateName = "uncertainty"

    @cached_property
    def mode(self) -> Mode:
        return self.policy.uncertainty.mode

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion:
        rulings = {call.id: self.rule_on_call(so_far.facts[call.id]) for call in live}
        # It has run: the question shows what is lost.
        if turn.actor == "sandbox":
            asked = {c: replace(r, standing=Standing.ASK) for c, r in rulings.items() if r.standing is Standing.HOLD}
            return Opinion({**rulings, **asked})
        unsure = [so_far.facts[c.id] for c in live if rulings[c.id].standing.stops]
        if not unsure:
            return Opinion(rulings)
        slots = tuple(dict.fromkeys(slot for facts in unsure for slot in facts.uncertainty.slots))
        return Opinion(rulings, Consequence("ask_user", build_question(unsure, slots, turn.slots_answered), slots))

    def rule_on_call(self, facts: CallFacts) -> Ruling:
        """Return the ruling on one call; an observation is never too uncertain.

        Where a value is the person's to name, the sheet that asks for it is the question.
        """
        if not facts.changes or facts.authority == "outside":
            return build_pass(self.name)
        threshold = self.policy.uncertainty.threshold
        number = Number("uncertainty", facts.uncertainty.value, threshold, "uncertainty.threshold")
        if facts.uncertainty.value < threshold or not facts.uncertainty.slots:
            return Ruling(_ALLOW, "uncertainty_passed", numbers=(number,))
        why = "; ".join(reason.why for reason in facts.uncertainty.reasons)
        message = f"too little is known to do this ({why}); the person is asked"
        return Ruling(Standing.HOLD, "uncertainty_clarification", message, numbers=(number,), reason=why)


def build_question(unsure: Sequence[CallFacts], slots: Sequence[str], answered: Sequence[str] = ()) -> str:
    """Return one question that names what would be done, why it is not, and what is open, also after an answer."""
    first = unsure[0]
    what = f"`{first.call.name[:64]}`" + (f" on `{first.target[:200]}`" if first.target else "")
    more = f" and {len(unsure) - 1} more" if len(unsure) > 1 else ""
    why = "; ".join(dict.fromkeys(reason.why for reason in first.uncertainty.reasons))
    again = "Your answer does not say it. " if any(slot in answered for slot in slots) else ""
    return f"{again}Before {what}{more}: {why}. Please say: {', '.join(slots)}."

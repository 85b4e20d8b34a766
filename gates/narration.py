"""Gate `narration`: before the first risk, the task has said what it understood and intends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from foregate.gates.counts import count_fired
from foregate.policy.policy import Policy
from foregate.schemas.codes import GateName
from foregate.schemas.judgement import Mode, Number, Opinion, Ruling, Standing, build_pass
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import CallFacts, ToolCall
from foregate.schemas.turn import Turn

MESSAGE = "first say in a sentence what you understood and what you are about to do, then send the call again with it"


@dataclass(frozen=True)
class NarrationGate:
    """Holds the calls that are due, at most `max_holds` times a task, and never in a child task."""

    policy: Policy
    name: GateName = "narration"

    @cached_property
    def mode(self) -> Mode:
        return self.policy.narration.mode

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion:
        section = self.policy.narration
        said = max(turn.narrated, len(turn.plan.goal) if turn.plan else 0)
        due = {call.id for call in live if self.is_due(so_far.facts[call.id])}
        often = section.max_holds and count_fired(turn, self.name, self.mode) >= section.max_holds
        if not due or said >= section.min_chars or turn.depth > 0 or often:
            return build_pass(self.name, live)
        number = Number("narrated", said, section.min_chars, "narration.min_chars")
        held = Ruling(Standing.HOLD, "narration_required", MESSAGE, numbers=(number,))
        clear = Ruling(Standing.ALLOW, "narration_passed")
        return Opinion({call.id: held if call.id in due else clear for call in live})

    def is_due(self, facts: CallFacts) -> bool:
        """Whether this call may not go without words before it."""
        match self.policy.narration.scope:
            case "risky":
                return facts.risky
            case "first_side_effect":
                return facts.changes
            case "first_response":
                return True

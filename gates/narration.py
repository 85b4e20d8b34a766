"""Gate `narration`: before the first risk, the task has said what it understood and intends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from foregate.policy.policy import Policy
from foregate.schemas.codes import GateName
from foregate.schemas.judgement import Mode, Number, Opinion, Ruling, Standing, build_rulings
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.turn import Turn

MESSAGE = "first say in a sentence what you understood and what you are about to do, then send the call again with it"


class NarrationGate(Struct, frozen=True, dict=True):
    """Holds the calls that are due, at most `max_holds` times a task, and never in a child task."""

    policy: Policy
    name: GateName = "narration"

    @cached_property
    def mode(self) -> Mode:
        return self.policy.narration.mode

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion:
        section = self.policy.narration
        said, due = turn.narrated, list[ToolCall]()
        if turn.plan is not None and len(turn.plan.goal) > said:
            said = len(turn.plan.goal)
        if turn.depth == 0 and said < section.min_chars:
            due = [call for call in live if self.is_due(so_far, call)]
        held = {}
        if due and not 0 < section.max_holds <= turn.count_fired(self.name, self.mode):
            number = Number("narrated", said, section.min_chars, "narration.min_chars")
            ruling = Ruling(Standing.HOLD, "narration_required", MESSAGE, numbers=(number,))
            held = {call.id: ruling for call in due}
        return Opinion(build_rulings(self.name, live, held))

    def is_due(self, so_far: SoFar, call: ToolCall) -> bool:
        """Whether this call may not go without words before it; where the person said all of it nothing is to be said,
        and where a value is theirs to name words do not help."""
        if so_far.facts[call.id].authority in ("said", "outside"):
            return False
        match self.policy.narration.scope:
            case "risky":
                return so_far.facts[call.id].risky
            case "first_side_effect":
                return so_far.facts[call.id].changes
            case "first_response":
                return True

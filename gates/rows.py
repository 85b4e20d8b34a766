"""From opinions to the rows of `turn_judged`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter

from foregate.schemas.codes import GateCode, GateName
from foregate.schemas.judgement import CallRuling, Decision, Mode, Opinion, Ruling, Standing
from foregate.schemas.protocols import Gate, SoFar
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.turn import Turn

_RANK = attrgetter("standing.rank")
_NOT_REQUIRED = "critique_not_required"
"""What stands for `critique_passed`."""


def build_decision(gate: Gate, opinion: Opinion, live: Sequence[ToolCall], so_far: SoFar, turn: Turn) -> Decision:
    """Return the row that records an opinion: its code is the strictest ruling's, the first call's on a tie."""
    rulings = [opinion.rulings[call.id] for call in live]
    strictest = max(rulings, key=_RANK)
    notable = [call for call in live if opinion.rulings[call.id].code not in (f"{gate.name}_passed", _NOT_REQUIRED)]
    if not (notable or strictest.numbers or opinion.detail or opinion.summary or any(r.rules for r in rulings)):
        return build_plain_decision(gate.name, strictest.code, gate.mode)
    first = live[rulings.index(strictest)]
    numbers = dict.fromkeys(number for ruling in rulings for number in ruling.numbers)
    rules = dict.fromkeys(rule for ruling in rulings for rule in ruling.rules)
    return Decision(
        gate=gate.name,
        mode=gate.mode,
        code=strictest.code,
        summary=opinion.summary or strictest.message,
        tool=first.name[:128] if notable else "",
        target=so_far.facts[first.id].target if notable else "",
        rulings=tuple(build_call_ruling(call, opinion.rulings[call.id], first) for call in notable),
        numbers=tuple(numbers),
        rules=tuple(rules),
        repetition=find_repetition(first, strictest, turn) if notable else "",
        consequence=opinion.consequence,
        detail=opinion.detail,
    )


@lru_cache(maxsize=256)
def build_plain_decision(gate: GateName, code: GateCode, mode: Mode) -> Decision:
    """Return the row of a gate that let everything pass and has nothing to add."""
    return Decision(gate, code, mode)


def build_call_ruling(call: ToolCall, ruling: Ruling, first: ToolCall) -> CallRuling:
    """Return a call's part of the row; the first call's message is the row's summary already."""
    return CallRuling(call.id, ruling.standing, ruling.code, "" if call is first else ruling.message, ruling.reason)


def find_repetition(call: ToolCall, ruling: Ruling, turn: Turn) -> str:
    """Return the code when the same call was held for it before on the same evidence, else ""."""
    if ruling.standing is not Standing.HOLD or not turn.holds:
        return ""
    known = turn.fingerprints.get(call.id, "")
    same = any((h.digest, h.code, h.fingerprint) == (call.digest, ruling.code, known) for h in turn.holds)
    return ruling.code if same else ""


def build_snapshot(turn: Turn, ready: int) -> Decision:
    """Return the last row of a turn in which something may run: execution state and number of calls."""
    state = {
        "task": turn.task,
        "turn": turn.turn,
        "tool_calls": turn.counters.tool_calls,
        "changes": turn.counters.changes,
        "plan": turn.plan.revision if turn.plan else 0,
    }
    return Decision("prelude", "prelude_ready_for_execution", detail={"execution_state": state, "calls": ready})

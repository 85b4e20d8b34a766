"""The judge: every gate in order, rulings joined by the strictest. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from foregate.gates.evidence import EvidenceGate
from foregate.gates.validity import ValidityGate
from foregate.policy.facts import facts_of_turn
from foregate.policy.policy import Policy
from foregate.schemas.call_facts import CallFacts
from foregate.schemas.decision import CallRuling, Decision
from foregate.schemas.judgement import Judgement, Verdict
from foregate.schemas.need import Need
from foregate.schemas.opinion import Consequence, Opinion
from foregate.schemas.protocols import Gate, SoFar
from foregate.schemas.ruling import Number, Ruling, Standing
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn


@dataclass(frozen=True, slots=True)
class Prelude:
    """The gates of a policy over a catalogue, and how a turn's facts are computed for them."""

    gates: tuple[Gate, ...]
    facts: Callable[[Turn], Mapping[str, CallFacts]]


def prelude(policy: Policy, catalogue: Catalogue) -> Prelude:
    """Return the gates in the order they are asked; a gate that is `off` is not among them."""
    gates: tuple[Gate, ...] = (ValidityGate(policy, catalogue), EvidenceGate(policy, catalogue))
    return Prelude(
        tuple(gate for gate in gates if gate.mode != "off"),
        lambda turn: facts_of_turn(turn, policy, catalogue),
    )


def judge(turn: Turn, bench: Prelude, facts: Mapping[str, CallFacts] | None = None) -> Judgement | Need:
    """Ask each gate about the calls that still stand below HOLD; return a judgement, or what must be known first.

    `facts` spares computing them when the caller has them already.
    """
    so_far = SoFar(bench.facts(turn) if facts is None else facts)
    consequence: tuple[str, Consequence] | None = None
    for gate in bench.gates:
        live = live_calls(turn, so_far)
        if not live:
            break
        opinion = ask(gate, turn, live, so_far)
        if isinstance(opinion, Need):
            return opinion
        so_far.decisions.append(decision_of(gate, opinion, live, so_far))
        if gate.mode == "shadow":
            continue
        join(gate.name, opinion, live, so_far)
        if opinion.consequence is not None and consequence is None:
            consequence = (gate.name, opinion.consequence)
            so_far.settled = True
    return concluded(turn, so_far, consequence)


def live_calls(turn: Turn, so_far: SoFar) -> tuple[ToolCall, ...]:
    """Return the calls that still stand below HOLD."""
    return tuple(
        call
        for call in turn.calls
        if call.id not in so_far.rulings or so_far.rulings[call.id][1].standing < Standing.HOLD
    )


def ask(gate: Gate, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion | Need:
    """Ask one gate. One that raises, or leaves a call out, holds what it did not rule on."""
    try:
        opinion = gate(turn, live, so_far)
    except Exception as error:
        return Opinion({call.id: failed(gate, f"{type(error).__name__}: {error}") for call in live})
    if isinstance(opinion, Need):
        return unasked(gate, opinion, live) if gate.mode == "shadow" or so_far.settled else opinion
    left_out = {call.id: failed(gate, "no ruling") for call in live if call.id not in opinion.rulings}
    if left_out:
        return Opinion({**opinion.rulings, **left_out}, opinion.consequence, opinion.detail, opinion.summary)
    return opinion


def failed(gate: Gate, why: str) -> Ruling:
    """Return the ruling of a gate that could not judge."""
    return Ruling(
        Standing.HOLD,
        "gate_error",
        f"the gate `{gate.name}` could not judge this call, so it is held",
        reason=why[:200],
    )


def unasked(gate: Gate, need: Need, live: Sequence[ToolCall]) -> Opinion:
    """Return the opinion of a gate whose question is not asked now: what it would ask about is held."""
    held = Ruling(Standing.HOLD, "not_asked_now", "held until what was asked first is settled; then send it again")
    clear = Ruling(Standing.ALLOW, f"{gate.name}_passed")
    return Opinion({call.id: held if call.id in need.calls else clear for call in live})


def join(gate: str, opinion: Opinion, live: Sequence[ToolCall], so_far: SoFar) -> None:
    """Join a gate's rulings by max; `approval` alone replaces an ASK. A consequence holds every change asked about."""
    for call in live:
        ruling = opinion.rulings[call.id]
        if opinion.consequence is not None and so_far.facts[call.id].changes and ruling.standing < Standing.HOLD:
            ruling = Ruling(Standing.HOLD, "not_asked_now", "held until what was asked first is settled")
        before = so_far.rulings.get(call.id)
        replaces = gate == "approval" and before is not None and before[1].standing is Standing.ASK
        if before is None or replaces or before[1].standing < ruling.standing:
            so_far.rulings[call.id] = (gate, ruling)


def decision_of(gate: Gate, opinion: Opinion, live: Sequence[ToolCall], so_far: SoFar) -> Decision:
    """Return the row that records an opinion: its code is the strictest ruling's, the first call's on a tie."""
    first = max(live, key=lambda call: opinion.rulings[call.id].standing.rank)
    strictest = opinion.rulings[first.id]
    numbers: dict[tuple[str, int, int], Number] = {}
    rules: dict[str, None] = {}
    for call in live:
        ruling = opinion.rulings[call.id]
        numbers.update({(n.name, n.value, n.bound): n for n in ruling.numbers})
        rules.update(dict.fromkeys(ruling.rules))
    notable = [call for call in live if opinion.rulings[call.id].code != f"{gate.name}_passed"]
    return Decision(
        gate=gate.name,
        mode=gate.mode,
        code=strictest.code,
        summary=opinion.summary or strictest.message,
        tool=first.name if notable else "",
        target=so_far.facts[first.id].target if notable else "",
        rulings=tuple(
            CallRuling(c.id, r.standing, r.code, r.message if c is not first else "", r.reason)
            for c in notable
            for r in (opinion.rulings[c.id],)
        ),
        numbers=tuple(numbers.values()),
        rules=tuple(rules),
        consequence=opinion.consequence,
        detail=opinion.detail,
    )


def concluded(turn: Turn, so_far: SoFar, consequence: tuple[str, Consequence] | None) -> Judgement:
    """Return the judgement: an ASK nobody settled is denied, a call no gate ruled on is held."""
    verdicts = []
    for call in turn.calls:
        gate, ruling = so_far.rulings.get(
            call.id, ("prelude", Ruling(Standing.HOLD, "gate_error", "no gate ruled on this call, so it is held"))
        )
        if ruling.standing is Standing.ASK:
            ruling = Ruling(Standing.DENY, "approval_required", ruling.message, rules=ruling.rules)
        verdicts.append(Verdict(call.id, call.digest, ruling.standing, gate, ruling))
    ready = sum(verdict.standing is Standing.ALLOW for verdict in verdicts)
    if ready:
        state = {"execution_state": snapshot(turn), "calls": ready}
        so_far.decisions.append(Decision("prelude", "prelude_ready_for_execution", detail=state))
    return Judgement(
        tuple(verdicts),
        tuple(so_far.decisions),
        consequence[1] if consequence else None,
        consequence[0] if consequence else "",
    )


def snapshot(turn: Turn) -> dict[str, int]:
    """Return the execution state a ready turn is recorded with."""
    return {
        "task": turn.task,
        "turn": turn.turn,
        "tool_calls": turn.counters.tool_calls,
        "changes": turn.counters.changes,
        "plan": turn.plan.revision if turn.plan else 0,
    }

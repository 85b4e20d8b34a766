"""The judge: every gate in order, rulings joined by the strictest. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from importlib import import_module
from itertools import repeat
from operator import attrgetter
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.gates.support.mandate import find_mandate
from foregate.gates.support.plan_scope import find_scripts
from foregate.policy.policy import Policy
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.risk.mandate import list_used_keys
from foregate.schemas import strict_json
from foregate.schemas.codes import GATES, GateName
from foregate.schemas.errors import ForegateError
from foregate.schemas.judgement import (
    Backing,
    CallRuling,
    Decision,
    Judgement,
    Mode,
    Need,
    Number,
    Opinion,
    Ruling,
    Standing,
    Verdict,
    build_pass,
    build_rulings,
    complete_rows,
)
from foregate.schemas.plan import PlanInForce
from foregate.schemas.protocols import Gate, SoFar
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts, ToolCall
from foregate.schemas.tool_spec import Catalogue, ToolSpec
from foregate.schemas.turn import Turn


class Prelude(Struct, frozen=True):
    """The gates of a policy over a catalogue, how a turn's facts are computed, and what a held call takes with it."""

    gates: tuple[Gate, ...]
    facts: Callable[[Turn], Mapping[str, CallFacts]]
    holds: str = "call"
    budget: Mapping[str, int] = field(default_factory=dict)
    """The bounds of a task's counters, without those that are unlimited."""
    keeps_rows: bool = True
    """Whether a judgement tells its decisions; its verdicts are the same without."""
    mandate: Callable[[CallFacts, Turn, SoFar], Backing | None] = lambda facts, turn, so_far: None
    """How a judgement tells who asked for a call."""

    @property
    def holds_all(self) -> bool:
        """Whether a call that does not run takes the whole response with it; asked for only where one does not."""
        return self.holds == "whole_response"


@cache
def find_gate_class(name: GateName) -> Any:
    """Return the class of a gate by its name: that of `plan` is `PlanGate` in `gates/plan.py`."""
    return getattr(import_module(f"foregate.gates.{name}"), f"{name.title()}Gate")


def build_gate(name: GateName, policy: Policy, catalogue: Catalogue) -> Gate:
    """Return a gate of a policy over a catalogue as a log gives it back; it may be `off`."""
    gate = find_gate_class(name)
    made: Gate = gate(policy, catalogue) if "catalogue" in gate.__struct_fields__ else gate(policy)
    return made


def build_prelude(
    policy: Policy,
    catalogue: Catalogue,
    *,
    keeps_rows: bool = True,
    build: Callable[[GateName, Policy, Catalogue], Gate] = build_gate,
) -> Prelude:
    """Return the gates in the order they are asked; a gate that is `off` is not among them."""
    catalogue = read_as_recorded(catalogue)
    gates = [build(name, policy, catalogue) for name in GATES]
    return Prelude(
        tuple(gate for gate in gates if gate.mode != "off"),
        lambda turn: compute_turn_facts(turn, policy, catalogue),
        policy.holds,
        list_bounds(policy) if keeps_rows else {},
        keeps_rows,
        partial(find_mandate, policy=policy),
    )


def read_as_recorded(catalogue: Catalogue) -> dict[str, ToolSpec]:
    """Return a catalogue as a log gives it back: the keys of its schemas have lost their order, and what is said of
    arguments must not hang on it, or the turn judged again would come out otherwise."""
    return {name: replace(spec, parameters=_read_again(spec.parameters)) for name, spec in catalogue.items()}


def _read_again(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    return strict_json.as_object(strict_json.decode_record(strict_json.encode_record(schema).decode()))


def list_bounds(policy: Policy) -> dict[str, int]:
    """Return the bounds of a task's counters by the counter, without those that are unlimited."""
    bounds = {name: getattr(policy.limits, name) for name in _BOUNDED}
    bounds |= {"elapsed": policy.limits.wall_clock}
    bounds |= {"safety_calls": policy.safety.model_calls, "safety_rounds": policy.safety.rounds}
    return {name: bound for name, bound in bounds.items() if bound}


def judge(turn: Turn, bench: Prelude, facts: Mapping[str, CallFacts] | None = None) -> Judgement | Need:
    """Ask each gate about the calls that still stand below HOLD; return a judgement, or what must be known first.

    `facts` spares computing them when the caller has them already.
    """
    so_far = SoFar(bench.facts(turn) if facts is None else facts)
    return go_on_judging(turn, bench, bench.gates, turn.calls, so_far)


def go_on_judging(
    turn: Turn, bench: Prelude, gates: Iterable[Gate], live: Sequence[ToolCall], so_far: SoFar
) -> Judgement | Need:
    """Ask the gates that are left of a bench about the calls that are still live after those before them."""
    ids = {call.id for call in live}
    for gate in gates:
        if not live or (len(live) < len(turn.calls) and bench.holds_all):
            # What is held as a whole spends nobody's advice or patience.
            break
        opinion = ask_gate(gate, turn, live, ids, so_far)
        if type(opinion) is Need:
            return opinion
        passed, row = describe_pass(gate.name, gate.mode)
        if so_far.rulings and gate.name != "approval" and is_plain(opinion, passed, live):
            if bench.keeps_rows:
                so_far.decisions.append(row)
            # What lets everything pass changes nothing of how the calls stand.
            continue
        if bench.keeps_rows:
            so_far.decisions.append(build_decision(gate, opinion, live, so_far, turn))
        if gate.mode == "shadow":
            continue
        if join_rulings(gate.name, opinion, live, so_far):
            live = [call for call in live if not so_far.rulings[call.id][1].standing.stops]
            ids = {call.id for call in live}
        if opinion.consequence is not None and so_far.consequence is None:
            so_far.consequence = (gate.name, opinion.consequence)
    return conclude_judgement(turn, so_far, bench)


def is_plain(opinion: Opinion, passed: Ruling, live: Sequence[ToolCall]) -> bool:
    """Whether an opinion lets each live call pass and says nothing else."""
    if opinion.detail or opinion.summary or opinion.consequence or opinion.plan or opinion.uses or opinion.grants:
        return False
    for call in live:  # noqa: SIM110 - every gate passes here, and a generator takes three times as long
        if opinion.rulings[call.id] is not passed:
            return False
    return True


def ask_gate(gate: Gate, turn: Turn, live: Sequence[ToolCall], ids: set[str], so_far: SoFar) -> Opinion | Need:
    """Ask one gate about the live calls, whose ids are `ids`.

    One that raises, or leaves a call out, holds what it did not rule on.
    """
    try:
        opinion = gate(turn, live, so_far)
    # Only a sentence of ours reaches the model; any other error is told in the log alone.
    except ForegateError as error:
        return Opinion({call.id: build_gate_error(gate, str(error), f": {error}"[:300]) for call in live})
    except Exception as error:
        return Opinion({call.id: build_gate_error(gate, f"{type(error).__name__}: {error}") for call in live})
    if type(opinion) is Need:
        may_ask = gate.mode != "shadow" or getattr(gate, "shadow_asks", False)
        if may_ask and so_far.consequence is None and turn.actor in ("model", "sandbox"):
            return opinion
        held = Ruling(Standing.HOLD, "not_asked_now", "held until what was asked first is settled; then send it again")
        return Opinion(build_rulings(gate.name, live, dict.fromkeys(opinion.calls, held)))
    if not turn.grants and len(opinion.rulings) == len(ids) and ids.issubset(opinion.rulings):
        return opinion
    rulings = {call.id: opinion.rulings.get(call.id) or build_gate_error(gate, "no ruling") for call in live}
    lifted = {
        call.id: ruling
        for call in live
        if (ruling := find_override(gate.name, rulings[call.id], turn, so_far.facts[call.id])) is not None
    }
    if lifted and turn.edition and opinion.consequence is not None:
        # What a person wants done anyway is no more asked about: the gate speaks of the other calls alone.
        rest = [call for call in live if call.id not in lifted]
        told = ask_gate(gate, turn, rest, ids - lifted.keys(), so_far) if rest else Opinion({})
        return told if isinstance(told, Need) else replace(told, rulings={**told.rulings, **lifted})
    return replace(opinion, rulings={**rulings, **lifted})


def build_gate_error(gate: Gate, why: str, told: str = "") -> Ruling:
    """Return the ruling of a gate that could not judge; `told` is what of the reason the model may read."""
    message = f"the gate `{gate.name}` could not judge this call, so it is held{told}"
    return Ruling(Standing.HOLD, "gate_error", message, reason=why[:200])


def find_override(gate: GateName, ruling: Ruling, turn: Turn, facts: CallFacts) -> Ruling | None:
    """Return the ruling that lets a held call go because a person said `anyway` to exactly this call, gate and code, as
    its scripts were; None where nobody did.

    What cannot be read, what a rule denies, what was not looked at and what could not be judged stays held.
    """
    final = gate in ("validity", "evidence") or ruling.code in ("gate_error", "not_asked_now", "outside_mandate")
    for grant in () if final or ruling.standing is not Standing.HOLD else turn.grants:
        same = (grant.gate, grant.code, grant.digest) == (gate, ruling.code, facts.call.digest)
        if same and grant.scripts in ("", find_scripts(facts)):
            code = "overridden" if turn.edition else build_pass(gate).code
            message = f"a person wanted this done anyway (`{ruling.code}`)" if turn.edition else ""
            numbers = ruling.numbers if turn.edition else ()
            return Ruling(Standing.ALLOW, code, message, reason=f"anyway, event {grant.seq}", numbers=numbers)
    return None


def join_rulings(gate: GateName, opinion: Opinion, live: Sequence[ToolCall], so_far: SoFar) -> bool:
    """Join a gate's rulings by max; return whether they stop a call.

    `approval` alone replaces an ASK. A consequence holds every change asked about.
    """
    stopped = False
    for call in live:
        ruling = opinion.rulings[call.id]
        asked = opinion.consequence is not None and ruling.code != "overridden"
        if asked and so_far.facts[call.id].changes and not ruling.standing.stops:
            ruling = Ruling(Standing.HOLD, "not_asked_now", "held until what was asked first is settled")
        before = so_far.rulings.get(call.id)
        replaces = gate == "approval" and before is not None and before[1].standing is _ASK
        if before is None or replaces or before[1].standing.rank < ruling.standing.rank:
            so_far.rulings[call.id] = (gate, ruling)
            stopped = stopped or ruling.standing.stops
    if opinion.plan is not None:
        so_far.plan, so_far.plan_first = opinion.plan, opinion.first
    if opinion.uses:
        so_far.uses.update(opinion.uses)
    so_far.grants += opinion.grants
    return stopped


def conclude_judgement(turn: Turn, so_far: SoFar, bench: Prelude) -> Judgement:
    """Return the judgement: an ASK nobody settled is denied, a call no gate ruled on is held."""
    facts, verdicts, is_all_allowed = so_far.facts, [], True
    allowed: set[str] = set()
    for call in turn.calls:
        verdicts.append(verdict := build_verdict(call, so_far))
        if verdict.standing is _ALLOW:
            allowed.add(call.id)
        else:
            is_all_allowed = False
    if not is_all_allowed and bench.holds_all:
        with_it = Ruling(Standing.HOLD, "not_asked_now", "held with its whole response; send it again")
        held = {"standing": Standing.HOLD, "gate": "prelude", "ruling": with_it}
        stopped = {call for call, (_, ruling) in so_far.rulings.items() if ruling.standing.stops}
        # In edition 0 what asked was denied, though nobody was asked.
        joins = (v.call not in stopped if turn.edition else v.standing is Standing.ALLOW for v in verdicts)
        verdicts = [replace(v, **held) if joined else v for v, joined in zip(verdicts, joins, strict=True)]
        allowed = set()
    plan = so_far.plan if so_far.plan_first in ("", *allowed) else None
    if allowed and bench.keeps_rows:
        so_far.decisions.append(build_snapshot(turn, len(allowed), plan or turn.plan, bench.budget))
    decisions = tuple(so_far.decisions)
    if turn.edition and bench.keeps_rows and not is_all_allowed:
        names = {call.id: (call.name[:128], facts[call.id].target) for call in turn.calls}
        decisions = complete_rows(decisions, verdicts, names)
    mandate: dict[str, Backing] = {}
    for name, one in facts.items() if bench.keeps_rows else ():
        if one.authority and (found := bench.mandate(one, turn, so_far)) is not None:
            mandate[name] = found
    uses, before = {}, len(turn.plan.items) if turn.plan is not None else 0
    # Else only what was in force before is used.
    committed = plan is not None or so_far.plan is None
    for name, items in so_far.uses.items():
        if name in allowed and (used := tuple(i for i in items if committed or i < before)):
            uses[name] = used
    return Judgement(
        tuple(verdicts),
        decisions,
        so_far.consequence[1] if so_far.consequence else None,
        so_far.consequence[0] if so_far.consequence else "",
        plan,
        tuple(so_far.grants),
        uses,
        {name: keys for name in sorted(allowed) if facts[name].authority and (keys := list_used_keys(facts[name]))},
        mandate,
    )


def build_verdict(call: ToolCall, so_far: SoFar) -> Verdict:
    """Return the strictest ruling on a call; without one it is held, and an ASK nobody settled is denied."""
    gate, ruling = so_far.rulings.get(call.id, _UNRULED)
    if ruling.standing is _ASK:
        ruling = Ruling(Standing.DENY, "approval_required", ruling.message, rules=ruling.rules)
    return Verdict(call.id, call.digest, ruling.standing, gate, ruling)


_ALLOW, _ASK = Standing.ALLOW, Standing.ASK
_UNRULED = ("prelude", Ruling(Standing.HOLD, "gate_error", "no gate ruled on this call, so it is held"))
_RANK = attrgetter("standing.rank")
# What stands for `critique_passed`.
_NOT_REQUIRED = "critique_not_required"


def build_decision(gate: Gate, opinion: Opinion, live: Sequence[ToolCall], so_far: SoFar, turn: Turn) -> Decision:
    """Return the row that records an opinion: its code is the strictest ruling's, the first call's on a tie."""
    said, passed = opinion.rulings, (f"{gate.name}_passed", _NOT_REQUIRED)
    strictest, is_plain = said[live[0].id], not (opinion.detail or opinion.summary)
    notable: list[ToolCall] = []
    for call in live:
        ruling = said[call.id]
        if ruling.standing.rank > strictest.standing.rank:
            strictest = ruling
        if ruling.code not in passed:
            notable.append(call)
        is_plain = is_plain and not ruling.rules
    if is_plain and not notable and not strictest.numbers:
        return Decision(gate.name, strictest.code, gate.mode)
    first, ranked = live[0], [strictest]
    if len(live) > 1:
        asked = (*notable, *live)
        ranked = [said[call.id] for call in asked]
        # Rows of earlier versions let one that merely passed stand before the notable.
        if turn.done_steps is not None:
            strictest = max(ranked, key=_RANK)
        first, ranked = asked[ranked.index(strictest)], ranked[len(notable) :]
    numbers: dict[Number, None] = {}
    rules: dict[str, None] = {}
    for ruling in ranked:
        numbers.update(dict.fromkeys(ruling.numbers))
        rules.update(dict.fromkeys(ruling.rules))
    return Decision(
        gate=gate.name,
        mode=gate.mode,
        code=strictest.code,
        summary=opinion.summary or strictest.message,
        tool=first.name[:128] if notable else "",
        target=so_far.facts[first.id].target if notable else "",
        rulings=tuple([build_row(call, said[call.id], first) for call in notable]) if notable else (),
        numbers=tuple(numbers),
        rules=tuple(rules),
        repetition=find_repetition(first, strictest, turn) if notable else "",
        consequence=opinion.consequence,
        detail=opinion.detail,
    )


def build_row(call: ToolCall, said: Ruling, first: ToolCall) -> CallRuling:
    """Return what a decision says of one call; the message of the `first` is the decision's own."""
    return CallRuling(call.id, said.standing, said.code, "" if call is first else said.message, said.reason)


@lru_cache(maxsize=256)
def describe_pass(gate: GateName, mode: Mode) -> tuple[Ruling, Decision]:
    """Return the ruling by which a gate lets a call pass, and the row of one that does so and has nothing to add."""
    passed = build_pass(gate)
    return passed, Decision(gate, passed.code, mode)


def find_repetition(call: ToolCall, ruling: Ruling, turn: Turn) -> str:
    """Return the code when the same call was held for it before on the same evidence, else ""."""
    if ruling.standing is not Standing.HOLD or not turn.holds:
        return ""
    held = (call.digest, ruling.code, turn.fingerprints.get(call.id, ""))
    return ruling.code if any((h.digest, h.code, h.fingerprint) == held for h in turn.holds) else ""


_BOUNDED = ("turns", "model_calls", "tool_calls", "tokens", "cost", "verification_rounds")
_REPLANNED: tuple[GateName, ...] = ("drift", "plan", "critique")


def build_snapshot(turn: Turn, ready: int, plan: PlanInForce | None, budget: Mapping[str, int]) -> Decision:
    """Return the last row of a turn in which something may run: execution state and number of calls.

    The state holds what was used of the `budget`, how often calls were to be sent again or planned anew, and the plan
    that holds from now on with the events that completed its steps, without what is none or empty.
    """
    counters, fired = turn.counters, turn.fired
    state: dict[str, Json] = {"task": turn.task, "turn": turn.turn, "tool_calls": counters.tool_calls}
    state |= {"changes": counters.changes, "plan": turn.plan.revision if turn.plan else 0}
    if turn.done_steps is not None:
        is_old = turn.edition < 3
        replans = sum(map(fired.get, _REPLANNED, repeat(0))) if fired else 0
        used = {name: count for name in budget if (count := getattr(counters, name)) or is_old}
        again = {"retries": sum(fired.values()) - replans, "replans": replans}
        more: dict[str, Json] = {"steps": dict(turn.done_steps), **again, "used": used}
        more["budget"] = dict(budget) if used else {}
        state["plan"] = plan.revision if plan else 0
        state |= {name: value for name, value in more.items() if value or is_old}
    detail: dict[str, Json] = {"execution_state": state, "calls": ready}
    done = ", ".join([f"{step} (event {event})" for step, event in turn.done_steps.items()]) if turn.done_steps else ""
    summary = f"done: {done}"[:500] if done else ""
    return Decision("prelude", "prelude_ready_for_execution", summary=summary, detail=detail)

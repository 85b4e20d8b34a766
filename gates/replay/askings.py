"""What the gates were asked about a recorded turn, so that a gate of another policy can be asked just that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from foregate.gates.prelude import Prelude, go_on_judging
from foregate.gates.replay.redecide import Replayed, judge_any_turn, replay_turn
from foregate.policy.policy import Policy
from foregate.schemas.codes import GATES, GateName
from foregate.schemas.judgement import Judgement, Mode, Need, Opinion
from foregate.schemas.protocols import Gate, SoFar
from foregate.schemas.tool_call import CallFacts, Score, ToolCall
from foregate.schemas.turn import Turn


class Asking(NamedTuple):
    """What a gate was asked, and what it said; None where it raised."""

    gate: Gate
    turn: Turn
    live: Sequence[ToolCall]
    so_far: SoFar
    said: Opinion | Need | None


class Change(NamedTuple):
    """Where a turn first comes out otherwise: how often it was judged with further answers before, and the asking."""

    place: int
    asking: Asking


class Askings:
    """All that the gates of a policy are asked while a turn is judged under it, with these facts of its calls: `now` is
    what that comes to, and `weighing` names the gates that look at a score.

    What another policy makes of the turn is found from the first gate on that decides otherwise.
    """

    def __init__(self, turn: Turn, policy: Policy, bench: Prelude, facts: Mapping[str, CallFacts]) -> None:
        looked, self._turn = list[str](), turn
        self._rounds = list[list[Asking]]()
        self._results = list[Judgement | Need]()
        gates = [_WatchedGate(gate, gate.name, gate.mode, looked, self._rounds) for gate in bench.gates]
        watched = Prelude(tuple(gates), bench.facts, bench.holds, keeps_rows=False)
        seen = {call: watch_scores(one, looked) for call, one in facts.items()}
        self.now = replay_turn(turn, policy, watched, seen, judge_round=self._judge_round)
        self.weighing = {gate.name for gate in gates if gate.weighs}

    def _judge_round(self, *about: Any) -> Judgement | Need:
        self._rounds.append([])
        self._results.append(judge_any_turn(*about))
        return self._results[-1]

    def find_change(
        self, names: Collection[str], find_gate: Callable[[GateName], Gate], facts: Mapping[str, CallFacts]
    ) -> Change | None:
        """Return where one of some gates of another policy first decides otherwise, None where none does.

        `names` are the gates that the policy can reach and, where `facts` have other scores, those that look at them:
        all others decide the same for as long as these do.
        """
        for place, askings in enumerate(self._rounds):
            for asking in askings:
                if asking.gate.name in names and not has_same_answer(find_gate(asking.gate.name), asking, facts):
                    return Change(place, asking)
        return None

    def go_on(
        self, change: Change, policy: Policy, find_gate: Callable[[GateName], Gate], facts: Mapping[str, CallFacts]
    ) -> Replayed:
        """Return what a turn comes to under another policy from a change on."""
        asking, rounds = change.asking, count()
        gates = tuple(gate for name in GATES if (gate := find_gate(name)).mode != "off")
        left = gates[next((n for n, gate in enumerate(gates) if is_not_before(gate, asking.gate)), len(gates)) :]

        def judge_round(turn: Turn, policy: Policy, bench: Prelude, facts: Mapping[str, CallFacts]) -> Judgement | Need:
            place = next(rounds)
            if place < change.place:
                return self._results[place]
            if place > change.place:
                return judge_any_turn(turn, policy, bench, facts)
            return go_on_judging(turn, bench, left, asking.live, copy_so_far(asking.so_far, facts))

        bench = Prelude(gates, lambda turn: facts, policy.holds, keeps_rows=False)
        return replay_turn(self._turn, policy, bench, facts, judge_round=judge_round)


def is_not_before(gate: Gate, other: Gate) -> bool:
    """Whether a gate is asked with another one or after it."""
    return GATES.index(gate.name) >= GATES.index(other.name)


def copy_so_far(so_far: SoFar, facts: Mapping[str, CallFacts]) -> SoFar:
    """Return what was found so far, to be filled on with these facts."""
    filled = {"rulings": dict(so_far.rulings), "uses": dict(so_far.uses), "grants": list(so_far.grants)}
    return replace(so_far, facts=facts, decisions=list(so_far.decisions), **filled)


def has_same_answer(gate: Gate, asking: Asking, facts: Mapping[str, CallFacts]) -> bool:
    """Whether a gate has the mode of another one and decides what that decided, and neither raises."""
    if gate.mode != asking.gate.mode or is_asking(gate) != is_asking(asking.gate):
        return False
    try:
        told = gate(asking.turn, asking.live, replace(asking.so_far, facts=facts))
    except Exception:
        return False
    return asking.said is not None and is_alike(told, asking.said)


def is_asking(gate: Gate) -> bool:
    """Whether a gate asks though its rulings are only recorded."""
    return bool(getattr(gate, "shadow_asks", False))


class _WatchedScore:
    """Stands for a score, and notes when it is looked at."""

    def __init__(self, score: Score, looked: list[str]) -> None:
        self._score, self._looked = score, looked

    def __getattr__(self, name: str) -> Any:
        self._looked.append(name)
        return getattr(self._score, name)


def watch_scores(facts: CallFacts, looked: list[str]) -> CallFacts:
    """Return facts that note when one of their scores is looked at."""
    watched: Any = {"risk": _WatchedScore(facts.risk, looked), "uncertainty": _WatchedScore(facts.uncertainty, looked)}
    return replace(facts, **watched)


def differs_in_scores_alone(one: Mapping[str, CallFacts], other: Mapping[str, CallFacts]) -> bool:
    """Whether the facts of the same calls are the same but for scores."""
    pairs = ((facts, other[call]) for call, facts in one.items())
    return all(replace(a, risk=b.risk, uncertainty=b.uncertainty) == b for a, b in pairs)


def is_alike(one: Opinion | Need, other: Opinion | Need) -> bool:
    """Whether two answers differ in no more than words and numbers to be shown: nothing that judges reads those."""
    if isinstance(one, Need) and isinstance(other, Need):
        return replace(one, request={}) == replace(other, request={})
    if isinstance(one, Need) or isinstance(other, Need) or one.rulings.keys() != other.rulings.keys():
        return False
    rulings = ((ruling, other.rulings[call]) for call, ruling in one.rulings.items())
    alike = all(
        a is b or (a.standing, a.code, a.rules, a.reason) == (b.standing, b.code, b.rules, b.reason) for a, b in rulings
    )
    return alike and _get_deciding(one) == _get_deciding(other)


_get_deciding = attrgetter("consequence", "plan", "first", "uses", "grants")


class _WatchedGate(Struct):
    """A gate that notes what it is asked."""

    gate: Gate
    name: GateName
    mode: Mode
    looked: list[str]
    rounds: list[list[Asking]]
    weighs: bool = False

    @property
    def shadow_asks(self) -> bool:
        return is_asking(self.gate)

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion | Need:
        said, before = None, len(self.looked)
        kept = copy_so_far(so_far, so_far.facts)  # judging goes on to fill what it has found so far
        try:
            said = self.gate(turn, live, so_far)
            return said
        finally:
            self.rounds[-1].append(Asking(self.gate, turn, live, kept, said))
            self.weighs = self.weighs or len(self.looked) > before

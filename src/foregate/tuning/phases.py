"""Counts under a changed policy where answers are assumed: before, at and after the divergence of a family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from math import inf
from typing import Literal, NamedTuple

from msgspec import Struct, field

from foregate.gates.replay.redecide import DIVERGING, Change, Redecision
from foregate.schemas.event_body import SessionStarted
from foregate.schemas.judgement import Judgement, Standing, Who
from foregate.schemas.protocols import Readable
from foregate.schemas.session_link import find_root
from foregate.schemas.turn import Turn

PhaseName = Literal["before", "at", "after"]
WHO: tuple[Who, ...] = ("planner", "critic", "person")


class CallOutcome(Struct, frozen=True, array_like=True):
    """What became of a call: its digest, how it comes out, and whether it is let go that was held."""

    digest: str
    change: Change
    let_go: bool


class TurnOutcome(Struct, frozen=True, array_like=True):
    """What became of a turn: who was asked (`was`), who would be (`asked`), and whose answers are assumed.

    `leaves_less` says that an answer is not asked for now which left something for later turns: a plan, a grant, or a
    request of the safety budget less.
    """

    seq: int
    task: int
    calls: tuple[CallOutcome, ...]
    was: tuple[Who, ...]
    asked: tuple[Who, ...]
    assumed: tuple[Who, ...] = ()
    leaves_less: bool = False

    @property
    def diverges(self) -> bool:
        """Whether the session would have gone another way from here on, or might have."""
        return bool(self.assumed) or self.leaves_less or any(call.change in DIVERGING for call in self.calls)


def list_asked(turn: Turn) -> tuple[Who, ...]:
    """Return who was asked in a recorded turn."""
    return tuple(answer.who for answer in turn.answers if answer.gate != "loop")


def describe_outcome(seq: int, turn: Turn, judgement: Judgement, result: Redecision) -> TurnOutcome:
    """Return what became of a turn judged again."""
    calls = []
    for change in result.calls:
        verdict = judgement.find_verdict(change.call) if change.call else None
        held = verdict is not None and verdict.standing is not Standing.ALLOW
        runs = change.after is not None and change.after.standing == "allow"
        digest = verdict.digest if verdict is not None else ""
        calls.append(CallOutcome(digest, change.change, held and runs))
    less = any(who != "person" for who in result.spared) or bool(result.spared and judgement.grants)
    return TurnOutcome(seq, turn.task, tuple(calls), list_asked(turn), result.asked, result.assumed, less)


class Phase(Struct):
    """Counts of one part of the sessions. `repeats` are calls that were sent again only because they had been held."""

    turns: int = 0
    repeats: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    was: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    assumed: Counter[str] = field(default_factory=Counter)


class Phases:
    """The three parts, which are never added up.

    What stands before the first divergence of its session is exact. At it only the assumed answers are not. What
    follows is an estimate: the session would have gone another way. There, a call is left out that was let go before,
    since nobody would send it again, and what its turn asked with it where nothing else is in it.
    """

    def __init__(self) -> None:
        self.before, self.at, self.after = Phase(), Phase(), Phase()
        self._diverged, self._until = False, inf
        self._let_go: set[tuple[int, str]] = set()

    def begin_session(self, until: float = inf) -> None:
        """Begin with another session; one that belongs to it has diverged by the event `until`."""
        self._diverged, self._until, self._let_go = False, until, set()

    def add(self, outcomes: Iterable[TurnOutcome]) -> None:
        """Count further turns of the session, in their order."""
        for outcome in outcomes:
            apart = self._diverged or outcome.seq > self._until
            phase = self.after if apart else self.at if outcome.diverges else self.before
            self._count(phase, outcome)
            self._diverged = self._diverged or outcome.diverges
            self._let_go.update((outcome.task, call.digest) for call in outcome.calls if call.let_go)

    def _count(self, phase: Phase, outcome: TurnOutcome) -> None:
        kept: Sequence[CallOutcome] = outcome.calls
        if phase is self.after:
            kept = [call for call in kept if not call.digest or (outcome.task, call.digest) not in self._let_go]
        phase.turns += 1
        phase.repeats += len(outcome.calls) - len(kept)
        phase.calls.update(call.change for call in kept)
        phase.was.update(outcome.was)
        if kept or not outcome.calls:
            phase.asked.update(outcome.asked)
            phase.assumed.update(outcome.assumed)


class Rest(NamedTuple):
    """What a session rests on: another one as far as its event `until`, all of it where that is not finite."""

    session: str
    until: float


class FamilyPhases:
    """Counts the turns of sessions in `phases`, family by family, once all of one were judged.

    `sessions` are all that are judged; of one that belongs to another which is not among them only itself is known.
    """

    def __init__(self, log: Readable, sessions: Sequence[str], phases: Phases) -> None:
        self._log, self._phases, self._known = log, phases, set(sessions)
        self._missing = Counter(find_root(name, self._known) for name in sessions)
        self._judged: dict[str, dict[str, list[TurnOutcome]]] = {}

    def add_session(self, name: str, outcomes: list[TurnOutcome]) -> None:
        """Take in what became of all turns of a session."""
        root = find_root(name, self._known)
        self._judged.setdefault(root, {})[name] = outcomes
        self._missing[root] -= 1
        if not self._missing[root]:
            self._count_family(self._judged.pop(root))

    def _count_family(self, judged: dict[str, list[TurnOutcome]]) -> None:
        if not any(judged.values()):
            # Nothing is assumed, and what became of single turns is not asked about.
            return
        rests = {name: find_rest(self._log, name) for name in judged} if len(judged) > 1 else {}
        own = {name: min((one.seq for one in turns if one.diverges), default=inf) for name, turns in judged.items()}
        until = find_divergences(own, {name: rest for name, rest in rests.items() if rest is not None})
        for name, turns in judged.items():
            self._phases.begin_session(until[name])
            self._phases.add(turns)


def find_rest(log: Readable, name: str) -> Rest | None:
    """Return what a session rests on: the one whose task it is, or which it resumes; None for nothing that is known."""
    first = next(iter(log.events(name, until=1)), None)
    started = first.body if first is not None else None
    if not isinstance(started, SessionStarted):
        return None
    if started.depth:
        return Rest(started.parent, started.parent_event)
    return Rest(started.follows.session, inf) if started.follows is not None else None


def find_divergences(own: dict[str, float], rests: dict[str, Rest]) -> dict[str, float]:
    """Return by session the event up to which no session it rests on, and no child task of it, has diverged.

    `own` are the events at which sessions diverge by themselves. What a child task did, its parent hears when it goes
    on; where a session had diverged before, so has all that it begins and all that resumes it.
    """
    until = dict.fromkeys(own, inf)
    order = sorted(own, key=partial(_count_parents, rests))
    for name in reversed(order):
        rest = rests.get(name)
        if rest is not None and rest.session in own and rest.until < inf and min(own[name], until[name]) < inf:
            until[rest.session] = min(until[rest.session], rest.until)
    for name in order:
        rest = rests.get(name)
        if rest is not None and rest.session in own and min(own[rest.session], until[rest.session]) < rest.until:
            until[name] = 0
    return until


def _count_parents(rests: dict[str, Rest], name: str) -> int:
    """Return how many sessions a session rests on, one after the other, itself counted."""
    seen = {name}
    while (rest := rests.get(name)) is not None and rest.session not in seen:
        name = rest.session
        seen.add(name)
    return len(seen)

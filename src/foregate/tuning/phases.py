"""What a changed policy comes to where answers are assumed: counted before, at and after a session's divergence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf
from typing import Literal

from msgspec import Struct, field

from foregate.gates.replay.redecide import DIVERGING, Change, Redecision
from foregate.schemas.judgement import Judgement, Standing, Who
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
        """Begin with another session, of which a session that belongs to it has diverged by the event `until`."""
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

"""Many changes of single keys tried on the turns of sessions, each turn read once for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import get_args

from msgspec import Struct, field

from foregate.audit.phases import list_asked
from foregate.audit.pieces import UNREADABLE, SessionPiece, explain_unreadable, read_turns
from foregate.audit.reach_index import find_frame_key
from foregate.audit.reach_pages import FrameKey
from foregate.audit.reach_table import Part
from foregate.gates.cases.mutations import move_value
from foregate.gates.replay.redecide import DIVERGING, PolicyComparison, Redecision, redecide_surveyed, survey_again
from foregate.policy.policy import Policy
from foregate.policy.source.load import restore_policy
from foregate.policy.source.strict_yaml import Data, Path
from foregate.policy.source.values import mark_moved
from foregate.schemas.judgement import Who
from foregate.schemas.protocols import Readable
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import build_catalogue
from foregate.telemetry.audit.rebuild_turn import InForce, RecordedTurn

Trial = tuple[Path, Data]
"""A key and the value it is tried with; None takes a rule out."""
Wanted = Mapping[str, Mapping[int, Sequence[tuple[int, int]]]]
"""By session and judging event, the numbers of the trials that can reach the turn, and the parts of it they can."""


class KeptCounts(Struct, frozen=True, array_like=True):
    """The counts of a trial for a piece of a session; see `TrialCounts`."""

    calls: dict[str, int]
    more: dict[Who, int]
    sessions: int
    unseen: int


class TrialCounts(Struct):
    """What a trial comes to up to each session's first divergence: calls by how they come out, and questions more.

    `unseen` are those that may come out otherwise, as looking at them again might find something else.
    """

    calls: Counter[str] = field(default_factory=Counter)
    more: Counter[Who] = field(default_factory=Counter)
    sessions: int = 0
    unseen: int = 0

    @property
    def turned(self) -> int:
        """The calls that come out otherwise."""
        return self.calls.total() - self.calls["unchanged"] - self.unseen

    def differs_from(self, other: TrialCounts) -> bool:
        """Whether more or fewer calls come out otherwise, or somebody is asked more or fewer questions."""
        turns = (self.turned, self.unseen) != (other.turned, other.unseen)
        return turns or any(self.more[who] != other.more[who] for who in get_args(Who))

    def count(self, recorded: RecordedTurn, result: Redecision) -> bool:
        """Count what a turn comes to; return whether its session would have gone another way."""
        self.calls.update(call.change for call in result.calls)
        self.unseen += sum(call.is_unseen for call in result.calls)
        self.more.update(result.asked)
        self.more.subtract(list_asked(recorded.turn))
        diverges = any(call.change in DIVERGING for call in result.calls)
        self.sessions += diverges
        return diverges

    def keep(self) -> KeptCounts | None:
        """Return the counts as they are kept, None where there is nothing to count."""
        if not (self.calls or self.unseen or self.sessions or any(self.more.values())):
            return None
        return KeptCounts(dict(self.calls), dict(self.more), self.sessions, self.unseen)

    def add(self, other: TrialCounts | KeptCounts) -> None:
        """Take in the counts of further sessions."""
        self.calls.update(other.calls)
        self.unseen += other.unseen
        self.more.update(other.more)
        self.sessions += other.sessions


def change_policy(before: Policy, trial: Trial) -> Policy:
    """Return a policy with another value; raise ValueError where that makes none."""
    path, value = trial
    return mark_moved(move_value(before, path, value), before, path, value)


class TrialJudge:
    """Judges turns of pieces of sessions under the policies of many trials; each policy is kept for the next piece."""

    def __init__(self, log: Readable, trials: Sequence[Trial], wanted: Wanted) -> None:
        self._log, self._trials, self._wanted = log, trials, wanted
        self._find_own, self._find_comparison = cache(self._build_own), cache(self._build_comparison)
        self._holds: dict[FrameKey, InForce] = {}

    def __call__(self, piece: SessionPiece) -> dict[int, TrialCounts]:
        """Return what each trial comes to in a piece, up to where it diverges; raise LogError where that cannot be
        read."""
        found: dict[int, TrialCounts] = {}
        over: set[int] = set()
        wanted = self._wanted[piece.session]
        try:
            for turn in read_turns(self._log, piece):
                key = find_frame_key(turn.in_force, turn.turn.catalogue_hash)
                self._holds.setdefault(key, turn.in_force)
                own = _OwnFacts(self._find_own(key), turn)
                for number, part in wanted[turn.seq]:
                    if number not in over:
                        result = self._judge(turn, own, self._find_comparison(key, number), Part(part))
                        if result is not None and found.setdefault(number, TrialCounts()).count(turn, result):
                            over.add(number)
        except UNREADABLE as error:
            raise explain_unreadable(piece.session, error) from None
        return found

    def _judge(
        self, recorded: RecordedTurn, own: _OwnFacts, comparison: PolicyComparison, part: Part
    ) -> Redecision | None:
        """Return what a turn comes to under a trial, judging no more of it than the trial can reach; None where that
        is what is recorded."""
        turn, unknown, looked = recorded.turn, dict[str, str](), set[str]()
        if part & Part.LOOKS:
            turn, unknown, looked = survey_again(turn, comparison.after, comparison.before, comparison.catalogue)
            if part == Part.LOOKS and not unknown and not looked:
                return None
        apart = bool(looked) or bool(part & Part.FACTS)
        facts = comparison.prelude.facts(turn) if apart else own.facts
        bench = comparison.prelude
        return redecide_surveyed(turn, recorded.judgement, comparison.after, bench, facts, unknown, looked)

    def _build_comparison(self, key: FrameKey, number: int) -> PolicyComparison:
        own = self._find_own(key)
        return PolicyComparison(own.before, change_policy(own.before, self._trials[number]), own.catalogue)

    def _build_own(self, key: FrameKey) -> PolicyComparison:
        values, catalogue = self._holds[key].require()
        policy = restore_policy(values)
        return PolicyComparison(policy, policy, build_catalogue(catalogue))


class _OwnFacts(Struct, frozen=True, dict=True):
    """The facts of a turn's calls under its own policy, found when they are first asked for."""

    own: PolicyComparison
    turn: RecordedTurn

    @cached_property
    def facts(self) -> Mapping[str, CallFacts]:
        return self.own.prelude.facts(self.turn.turn)

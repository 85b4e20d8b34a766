"""Many changes of single keys tried on the turns of sessions, each turn read once for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, partial
from typing import get_args

from msgspec import Struct, field

from foregate.audit.phases import list_asked
from foregate.audit.pieces import UNREADABLE, SessionPiece, explain_unreadable, read_turns
from foregate.audit.reach_index import find_frame_key
from foregate.audit.reach_pages import FrameKey
from foregate.audit.reach_table import FACTS, JUDGED, LOOKS
from foregate.gates.cases.mutations import move_value
from foregate.gates.prelude import build_gate, build_prelude, read_as_recorded
from foregate.gates.replay.askings import Askings, differs_in_scores_alone
from foregate.gates.replay.redecide import DIVERGING, Redecision, compare_replayed, redecide_surveyed, survey_again
from foregate.policy.policy import Policy
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.source.load import restore_policy
from foregate.policy.source.strict_yaml import Data, Path
from foregate.policy.source.values import mark_moved
from foregate.schemas.codes import GATES, GateName
from foregate.schemas.judgement import Who
from foregate.schemas.protocols import Gate, Readable
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import ToolSpec, build_catalogue
from foregate.telemetry.audit.rebuild_turn import RecordedTurn

Trial = tuple[Path, Data]
"""A key and the value it is tried with; None takes a rule out."""


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


class TrialPiece(SessionPiece, frozen=True):
    """A piece of a session with the trials that can reach its turns: by the judging event, the number of each trial and
    the parts of judging the turn that it can reach."""

    trials: Mapping[int, Trial] = {}
    wanted: Mapping[int, Sequence[tuple[int, int]]] = {}


class TrialJudge:
    """Judges turns of pieces of sessions under the policies of many trials; each policy is kept for the next piece."""

    def __init__(self, log: Readable) -> None:
        self._log = log
        self._frames: dict[FrameKey, _Frame] = {}

    def __call__(self, piece: SessionPiece) -> dict[int, TrialCounts]:
        """Return what each trial comes to in a piece, up to where it diverges; raise LogError where that cannot be
        read."""
        assert isinstance(piece, TrialPiece), "a piece names what is tried on it"
        found: dict[int, TrialCounts] = {}
        over: set[int] = set()
        try:
            for turn in read_turns(self._log, piece):
                key = find_frame_key(turn.in_force, turn.turn.catalogue_hash)
                if key not in self._frames:
                    self._frames[key] = _Frame(*turn.in_force.require())
                judged = _TurnTrials(self._frames[key], turn)
                for number, part in piece.wanted[turn.seq]:
                    if number not in over:
                        result = judged.judge(piece.trials[number], part)
                        if result is not None and found.setdefault(number, TrialCounts()).count(turn, result):
                            over.add(number)
        except UNREADABLE as error:
            raise explain_unreadable(piece.session, error) from None
        return found


class _Frame:
    """What turns were judged under, with what trials make of it."""

    def __init__(self, policy: Mapping[str, Json], catalogue: tuple[ToolSpec, ...]) -> None:
        self.policy, self.catalogue = restore_policy(policy), read_as_recorded(build_catalogue(catalogue))
        self.bench = build_prelude(self.policy, self.catalogue, keeps_rows=False)
        self._gates: dict[tuple[Trial, str], Gate] = {}
        self.revise = cache(lambda trial: change_policy(self.policy, trial))
        self.build_bench = cache(lambda trial: build_prelude(self.revise(trial), self.catalogue, keeps_rows=False))

    def find_gate(self, trial: Trial, name: GateName) -> Gate:
        """Return a gate of a trial's policy."""
        if (trial, name) not in self._gates:
            self._gates[trial, name] = build_gate(name, self.revise(trial), self.catalogue)
        return self._gates[trial, name]


class _TurnTrials:
    """Judges one turn under the policies of trials: of what no trial can reach, once for all of them."""

    def __init__(self, frame: _Frame, recorded: RecordedTurn) -> None:
        self._frame, self._recorded, self._turn = frame, recorded, recorded.turn

    @cached_property
    def _facts(self) -> Mapping[str, CallFacts]:
        return self._frame.bench.facts(self._turn)

    @cached_property
    def _askings(self) -> Askings:
        return Askings(self._turn, self._frame.policy, self._frame.bench, self._facts)

    def judge(self, trial: Trial, part: int) -> Redecision | None:
        """Return what the turn comes to under a trial that can reach these parts of judging it, None where that is what
        is recorded."""
        frame, turn, unknown, looked = self._frame, self._turn, dict[str, str](), set[str]()
        if part & LOOKS:
            turn, unknown, looked = survey_again(turn, frame.revise(trial), frame.policy, frame.catalogue)
            if part == LOOKS and not unknown and not looked:
                return None
        facts, recorded = self._facts, self._recorded.judgement
        if looked or part & FACTS:
            facts = compute_turn_facts(turn, frame.revise(trial), frame.catalogue)
        if looked or part & JUDGED or not differs_in_scores_alone(facts, self._facts):
            policy, bench = frame.revise(trial), frame.build_bench(trial)
            return redecide_surveyed(turn, recorded, policy, bench, facts, unknown, looked)
        names = {name for place, name in enumerate(GATES, start=1) if part & JUDGED << place}
        if facts != self._facts:
            names |= self._askings.weighing
        find_gate = partial(frame.find_gate, trial)
        change = self._askings.find_change(names, find_gate, facts) if names else None
        if change is None and not unknown:
            return None
        policy = frame.revise(trial)
        now = self._askings.go_on(change, policy, find_gate, facts) if change is not None else self._askings.now
        return compare_replayed(turn, recorded, now, policy.holds, facts, unknown)

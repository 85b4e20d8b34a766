"""Many changes of single keys tried on recorded turns, each turn read once for all of them, stored by piece."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from typing import get_args

import msgspec
from msgspec import Struct, field

from foregate.evidence.state.recorded_turns import RecordedTurn
from foregate.gates.prelude import build_prelude
from foregate.gates.replay.reach import is_of_gates
from foregate.gates.replay.redecide import DIVERGING, PolicyComparison, Redecision
from foregate.policy.policy import Policy
from foregate.policy.source.load import restore_policy
from foregate.policy.source.strict_yaml import Data, Path
from foregate.policy.source.values import mark_moved, replace_values
from foregate.schemas import strict_json
from foregate.schemas.judgement import Who
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import ToolSpec, build_catalogue
from foregate.tuning.phases import list_asked
from foregate.tuning.piece_store import Head, PieceStore
from foregate.tuning.pieces import UNREADABLE, SessionPiece, explain_unreadable, read_turns
from foregate.tuning.reach_index import FrameKey, find_frame_key

Trial = tuple[Path, Data]
"""A key and the value it is tried with; None takes a rule out."""


def number_trial(trial: Trial) -> int:
    """Return the number under which the counts of a trial are stored, the same in every process."""
    name = strict_json.canonical([list(trial[0]), trial[1]])
    return int.from_bytes(sha256(name).digest()[:7], "big")


class TrialCounts(Struct, array_like=True):
    """The counts of a trial up to each session's first divergence: calls by how they come out, and further questions.

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

    @property
    def is_empty(self) -> bool:
        """Whether nothing is counted."""
        return not (self.calls or self.unseen or self.sessions or any(self.more.values()))

    def differs_from(self, other: TrialCounts) -> bool:
        """Whether more or fewer calls come out otherwise, or somebody is asked more or fewer questions."""
        turns = (self.turned, self.unseen) != (other.turned, other.unseen)
        return turns or any(self.more[who] != other.more[who] for who in get_args(Who))

    def count(self, recorded: RecordedTurn, result: Redecision) -> bool:
        """Count a turn judged again; return whether its session would have gone another way."""
        self.calls.update(call.change for call in result.calls)
        self.unseen += sum(call.is_unseen for call in result.calls)
        self.more.update(result.asked)
        self.more.subtract(list_asked(recorded.turn))
        diverges = any(call.change in DIVERGING for call in result.calls)
        self.sessions += diverges
        return diverges

    def add(self, other: TrialCounts) -> None:
        """Take in the counts of further sessions."""
        # `update` asks what it was given, and there are tens of thousands of counts to add.
        for change, count in other.calls.items():
            self.calls[change] = self.calls.get(change, 0) + count
        self.unseen += other.unseen
        if other.more:
            self.more.update(other.more)
        self.sessions += other.sessions


def change_policy(before: Policy, trial: Trial) -> Policy:
    """Return a policy with another value; raise ValueError where that makes none."""
    path, value = trial
    return mark_moved(replace_values(before, {path: value}), before, path, value)


class TrialPiece(SessionPiece, frozen=True):
    """A piece of a session with the trials that can reach its turns, by number and by the judging event."""

    trials: Mapping[int, Trial] = {}
    wanted: Mapping[int, Collection[int]] = {}


class TrialJudge:
    """Judges turns of pieces of sessions under the policies of many trials; each policy is kept for the next piece."""

    def __init__(self, log: Readable) -> None:
        self._log = log
        self._frames: dict[FrameKey, _TrialFrame] = {}

    def __call__(self, piece: SessionPiece) -> dict[int, TrialCounts]:
        """Return the counts of each trial in a piece, up to where it diverges; raise LogError where that cannot be
        read."""
        assert isinstance(piece, TrialPiece), "a piece names what is tried on it"
        found: dict[int, TrialCounts] = {}
        over, in_force, frame = set[int](), None, None
        try:
            for turn in read_turns(self._log, piece):
                if turn.in_force is not in_force or frame is None:
                    in_force, frame = turn.in_force, self._find_frame(turn)
                trials = _TurnTrials(frame, turn)
                for number in piece.wanted[turn.seq]:
                    if number not in over:
                        result = trials.judge(piece.trials[number])
                        if result is not None and found.setdefault(number, TrialCounts()).count(turn, result):
                            over.add(number)
        except UNREADABLE as error:
            raise explain_unreadable(piece.session, error) from None
        return found

    def _find_frame(self, turn: RecordedTurn) -> _TrialFrame:
        key = find_frame_key(turn.in_force, turn.turn.catalogue_hash)
        if key not in self._frames:
            self._frames[key] = _TrialFrame(*turn.in_force.require())
        return self._frames[key]


class _TrialFrame:
    """What turns were judged under, with what trials make of it."""

    def __init__(self, policy: Mapping[str, Json], catalogue: tuple[ToolSpec, ...]) -> None:
        self.policy, self.catalogue = restore_policy(policy), build_catalogue(catalogue)
        self.bench = build_prelude(self.policy, self.catalogue, keeps_rows=False)
        self.compare = cache(self._compare)

    def _compare(self, trial: Trial) -> PolicyComparison | None:
        """Return the policy beside what a trial makes of it, None where that is no policy."""
        with suppress(ValueError):
            return PolicyComparison(self.policy, change_policy(self.policy, trial), self.catalogue)
        return None


class _TurnTrials:
    """Judges one turn under the policies of trials; of keys that no fact carries on with the same facts."""

    def __init__(self, frame: _TrialFrame, recorded: RecordedTurn) -> None:
        self._frame, self._recorded = frame, recorded

    @cached_property
    def _facts(self) -> Mapping[str, CallFacts]:
        return self._frame.bench.facts(self._recorded.turn)

    def judge(self, trial: Trial) -> Redecision | None:
        """Return the turn judged again under a trial, None for one that makes no policy."""
        facts = self._facts if is_of_gates(trial[0]) else None
        if (comparison := self._frame.compare(trial)) is None:
            return None
        return comparison.redecide(self._recorded.turn, self._recorded.judgement, facts)


_QUESTION = "trials"
"""The question to which what is stored of a piece answers: the counts of each trial in it, by the trial's number."""
_PIECES_PER_WRITE = 64
_STORED = msgspec.msgpack.Decoder(dict[int, TrialCounts | None], dec_hook=lambda _, value: _build_counter(value))


def _build_counter(counts: Mapping[str, int]) -> Counter[str]:
    """Return counts as a Counter without its asking of each what it was given."""
    found: Counter[str] = Counter()
    dict.update(found, counts)
    return found


class TrialStore:
    """What is known of the trials of all `pieces` of sessions with these heads.

    A store that cannot be written costs nothing but the work of finding it again.
    """

    def __init__(self, store: PieceStore, heads: Mapping[str, Head], pieces: Sequence[SessionPiece]) -> None:
        self._store, self._heads, self._written = store, heads, 0
        self._known: dict[SessionPiece, dict[int, TrialCounts | None]] = {piece: {} for piece in pieces}
        for session, own in groupby(pieces, attrgetter("session")):
            bodies, _ = store.read(_QUESTION, session, heads[session])
            for piece, body in zip(own, bodies, strict=False):
                with suppress(msgspec.MsgspecError):
                    self._known[piece] = _STORED.decode(body)

    def find_new(self, piece: SessionPiece, numbers: Collection[int]) -> set[int]:
        """Return the numbers of the trials that are new in a piece."""
        return set(numbers).difference(self._known[piece])

    def add(self, piece: SessionPiece, numbers: Collection[int], counts: Mapping[int, TrialCounts]) -> None:
        """Keep the counts of trials in a piece, those among them that count nothing."""
        known = self._known[piece]
        known.update(dict.fromkeys(numbers))
        known.update({number: one for number, one in counts.items() if not one.is_empty})
        with suppress(sqlite3.DatabaseError, OverflowError):
            self._store.keep(_QUESTION, piece, self._heads[piece.session], msgspec.msgpack.encode(known))
        self._written += 1
        if self._written % _PIECES_PER_WRITE == 0:
            self.commit()

    def commit(self) -> None:
        """Write what was kept."""
        with suppress(sqlite3.DatabaseError):
            self._store.commit()

    def sum_up(self, numbers: Collection[int], pieces: Sequence[SessionPiece]) -> dict[int, TrialCounts]:
        """Return the counts of trials over pieces, of each session up to its first divergence."""
        found: dict[int, TrialCounts] = {}
        for _, own in groupby(pieces, attrgetter("session")):
            over = set[int]()
            for piece in own:
                known = self._known[piece]
                for number in numbers:
                    counts = known.get(number)
                    if counts is None or number in over:
                        continue
                    if number not in found:
                        found[number] = TrialCounts()
                    found[number].add(counts)
                    if counts.sessions:
                        over.add(number)
        return found

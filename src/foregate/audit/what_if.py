"""Recorded sessions under another policy: every turn judged again, in parallel, in the order of the log."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from foregate.audit import pieces as cut  # how many events a piece has is said there alone
from foregate.audit.change_reach import ChangeReach, FrameChange, plan_session
from foregate.audit.family_phases import FamilyPhases
from foregate.audit.kept_pieces import Head, KeptPieces
from foregate.audit.key_change import Change, Revision
from foregate.audit.phases import CallOutcome, Phases, TurnOutcome, describe_outcome
from foregate.audit.pieces import (
    UNREADABLE,
    Progress,
    SessionPiece,
    Workers,
    collect_seldom,
    explain_unreadable,
    read_turns,
    split_session,
    work_on_pieces,
    work_on_sessions,
)
from foregate.audit.reach_index import ReachIndex
from foregate.audit.reach_pages import ReachPage
from foregate.gates.replay.assumption import Assumption
from foregate.gates.replay.redecide import DIVERGING, CallChange, PolicyComparison
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import restore_policy
from foregate.policy.source.strict_yaml import Data, format_path
from foregate.policy.source.users import is_outside_judging
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import build_catalogue
from foregate.telemetry.audit.rebuild_turn import RecordedTurn


class Bound(Struct, frozen=True):
    """A number a ruling rests on: its value, the policy key of its bound, and that bound before and after."""

    name: str
    value: int
    key: str
    before: Data
    after: Data


class Row(Struct, frozen=True):
    """A call that comes out differently: where it stands in the log, how it differs, and which keys decide that.

    `keys` is empty where nobody asked for them. `diverges` marks the turn from which the session would have gone
    another way; `apart` all that follows it.
    """

    session: str
    seq: int
    time: str
    task: int
    turn: int
    actor: str
    call: CallChange
    bounds: tuple[Bound, ...] = ()
    keys: tuple[str, ...] = ()
    diverges: bool = False
    apart: bool = False

    def to_json(self) -> Json:
        """Return the row as JSON values, every column present."""
        row: dict[str, Json] = to_builtins(self)
        return {"kind": "call", **row}


class WhatIfTally(Struct):
    """Counts of what came out how: before and at each session's first divergence, and after it."""

    sessions: int = 0
    diverged: int = 0
    turns: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    apart: Counter[str] = field(default_factory=Counter)
    spared: Counter[str] = field(default_factory=Counter)
    values: dict[str, tuple[Data, Data]] = field(default_factory=dict)
    beside: dict[str, None] = field(default_factory=dict)

    def name_differences(self, changes: Iterable[FrameChange]) -> None:
        """Name what the policies of turns differ in from those they are judged under, in the order of the turns."""
        self.values, self.beside = {}, {}
        for change in changes:
            self.values = {**{format_path(path): pair for path, pair in change.differences.items()}, **self.values}
            beside = (format_path(path) for path in change.differences if is_outside_judging(path))
            self.beside.update(dict.fromkeys(beside))

    def add_counts(self, other: WhatIfTally, *, apart: bool) -> None:
        """Take in the counts of a further piece of a session; with `apart` all of it follows a divergence."""
        self.turns += other.turns
        self.apart.update(other.apart)
        (self.apart if apart else self.changes).update(other.changes)
        if not apart:
            self.spared.update(other.spared)
        self.values = {**other.values, **self.values}
        self.beside.update(other.beside)


class WhatIf:
    """Judges sessions of a log again under a user's layer, or with other values of keys.

    `tally` is complete once all changes are found. With an `index` that has caught up, only the turns are judged that
    the change can reach; rows and counts are the same. What the index does not hold is judged. With `assume` answers
    stand in for those the log does not hold, and `phases` counts what is exact and what is not apart. `progress` is
    told how many pieces of the sessions are through, and of how many, where there is an index.

    Finding the deciding keys of all rows takes longer than judging them. Without `names_keys` rows have none, and
    `name_keys` finds those of a row that is shown. With `keeps` what is judged is kept with the index, so that the
    same file is judged only for what was written since.
    """

    def __init__(
        self,
        log: Readable,
        user: Change,
        workers: Workers = 0,
        index: ReachIndex | None = None,
        assume: Assumption | None = None,
        progress: Progress | None = None,
        *,
        names_keys: bool = True,
        keeps: bool = False,
    ) -> None:
        self._keeps, self._heads = keeps, dict[str, Head]()
        self._log, self._user, self._index, self._assume = log, user, index, assume
        self._workers, self._progress, self._names_keys = workers, progress, names_keys
        self.phases = Phases()
        self.tally = WhatIfTally()

    @cached_property
    def _judge(self) -> PieceJudge:
        return PieceJudge(self._log, self._user)

    def name_keys(self, row: Row) -> Row:
        """Return a row with the keys that decide it; raise LogError where the log cannot be read."""
        return row if row.keys else replace(row, keys=self._judge.find_keys(row))

    def find_changes(self, sessions: Sequence[str]) -> Iterator[Row]:
        """Yield every call that comes out differently, session by session, in the order of the log.

        Raises LogError for a log that cannot be read and PolicyError where a session's workspace file would be
        refused over the user's.
        """
        session, diverged = "", False
        families, told = FamilyPhases(self._log, sessions, self.phases), list[TurnOutcome]()
        for piece, (rows, tally, outcomes) in self._judge_pieces(sessions):
            if piece.session != session:
                if session:
                    families.add_session(session, told)
                session, diverged, told = piece.session, False, []
                self.tally.sessions += 1
            told += outcomes
            self.tally.add_counts(tally, apart=diverged)
            for row in rows:
                yield replace(row, diverges=False, apart=True) if diverged else row
            if tally.diverged and not diverged:
                diverged = True
                self.tally.diverged += 1
        if session:
            families.add_session(session, told)

    def _judge_pieces(self, sessions: Sequence[str]) -> Iterator[tuple[SessionPiece, JudgedPiece]]:
        """Yield each piece of the sessions with what comes of it, in the order of the log."""
        judge = partial(PieceJudge, user=self._user, assume=self._assume, names_keys=self._names_keys)
        if self._index is None:
            yield from work_on_sessions(self._log, sessions, judge, self._workers)
            return
        reach, kept = ChangeReach(self._user), self._index.kept
        if self._name:
            kept.ask(self._name)
        with collect_seldom():
            planned = [one for session in sessions for one in self._plan_session(self._index, reach, session)]
        pieces = [piece for piece, _, known in planned if known is None and (piece.only is None or piece.only)]
        events = sum(piece.count_events() for piece in pieces)
        judged = work_on_pieces(self._log, pieces, events, judge, self._workers)
        try:
            for count, (piece, page, known) in enumerate(planned, start=1):
                found = known
                if found is None:
                    nothing = piece.only is not None and not piece.only
                    found = JudgedPiece([], WhatIfTally(), []) if nothing else next(judged)[1]
                    if page is not None:
                        changes = (reach.find_change(key, self._index.get_frame(key)) for key in page.list_frames())
                        found.tally.name_differences(changes)
                        found = add_unreached(page, piece.only or (), found, outcomes=self._assume is not None)
                    self._keep(kept, piece, found)
                yield piece, found
                if self._progress is not None:
                    self._progress(count, len(planned))
        finally:
            with suppress(sqlite3.DatabaseError):
                kept.commit()

    @cached_property
    def _name(self) -> str:
        """What is judged, by which its results are kept; "" where none are."""
        if not self._keeps or not isinstance(self._user, Layer | None):
            return ""
        user: Json = [self._user.data, self._names_keys] if self._user is not None else [None, self._names_keys]
        assumed: Json = self._assume.to_json() if self._assume is not None else None
        return f"what-if {strict_json.digest([user, assumed])}"

    def _plan_session(
        self, index: ReachIndex, reach: ChangeReach, session: str
    ) -> Iterator[tuple[SessionPiece, ReachPage | None, JudgedPiece | None]]:
        """Yield the pieces of a session: those that were judged before, and what is to be judged of the others."""
        head, begin = self._log.head_anchor(session), 0
        self._heads[session] = head
        bodies = index.kept.read(self._name, session, head)[0] if self._name else []
        for number, body in enumerate(bodies):
            try:
                known = read_piece(body)
            except msgspec.MsgspecError:
                break
            begin = min((number + 1) * cut.CHUNK, max(head[0], 1))
            yield SessionPiece(session, number * cut.CHUNK, begin, ()), None, known
        if begin < max(head[0], 1):
            for piece, page in plan_session(self._log, index, reach, session):
                if piece.after >= begin:
                    yield piece, page, None

    def _keep(self, kept: KeptPieces, piece: SessionPiece, found: JudgedPiece) -> None:
        if self._name:
            with suppress(sqlite3.DatabaseError, OverflowError):
                kept.keep(self._name, piece, self._heads[piece.session], write_piece(found))


def add_unreached(page: ReachPage, only: Sequence[int], found: JudgedPiece, *, outcomes: bool) -> JudgedPiece:
    """Count the turns of a page that were not judged again: their calls come out as recorded."""
    first = next((row.seq for row in found.rows if row.diverges), None)
    judged, told = set(only), list(found.outcomes)
    for turn in page.turns:
        if turn.seq not in judged:
            found.tally.turns += 1
            apart = first is not None and turn.seq > first
            (found.tally.apart if apart else found.tally.changes)["unchanged"] += len(turn.digests)
            if outcomes:
                calls = tuple(CallOutcome(digest, "unchanged", False) for digest in turn.digests)
                told.append(TurnOutcome(turn.seq, turn.task, calls, turn.asked, turn.asked))
    return found._replace(outcomes=sorted(told, key=attrgetter("seq")))


class JudgedPiece(NamedTuple):
    """What comes of a piece: its rows and counts, and where answers are assumed what became of each turn."""

    rows: list[Row]
    tally: WhatIfTally
    outcomes: list[TurnOutcome]


class _KeptPiece(Struct, frozen=True, array_like=True):
    """A judged piece as it is kept."""

    rows: list[Row]
    outcomes: list[TurnOutcome]
    turns: int
    diverged: int
    counts: tuple[dict[str, int], dict[str, int], dict[str, int]]
    values: dict[str, tuple[Data, Data]]
    beside: list[str]


_PIECES = msgspec.msgpack.Decoder(_KeptPiece)


def write_piece(found: JudgedPiece) -> bytes:
    """Return what came of a piece as it is kept; raise OverflowError where a number is too large for that."""
    tally = found.tally
    counts = (dict(tally.changes), dict(tally.apart), dict(tally.spared))
    kept = _KeptPiece(found.rows, found.outcomes, tally.turns, tally.diverged, counts, tally.values, list(tally.beside))
    return msgspec.msgpack.encode(kept)


def read_piece(body: bytes) -> JudgedPiece:
    """Return what came of a piece; raise MsgspecError for what is none."""
    kept = _PIECES.decode(body)
    changes, apart, spared = map(Counter[str], kept.counts)
    tally = WhatIfTally(0, kept.diverged, kept.turns, changes, apart, spared, kept.values, dict.fromkeys(kept.beside))
    return JudgedPiece(kept.rows, tally, kept.outcomes)


class PieceJudge:
    """Judges pieces of sessions again; policies and gates are kept from one piece to the next."""

    def __init__(
        self, log: Readable, user: Change, assume: Assumption | None = None, *, names_keys: bool = True
    ) -> None:
        self._log, self._revision, self._assume, self._names_keys = log, Revision(user), assume, names_keys
        self._outcomes: list[TurnOutcome] = []
        self._comparisons: dict[tuple[str, str, str], PolicyComparison] = {}

    def __call__(self, piece: SessionPiece) -> JudgedPiece:
        """Return the rows of a piece and its counts; raise LogError where the log cannot be read."""
        self._outcomes = []
        rows, tally, last = list[Row](), WhatIfTally(), piece.after
        in_force, comparison = None, None
        try:
            # the call of an early read is judged with its response
            for turn in read_turns(self._log, piece):
                last = turn.seq
                if turn.in_force is not in_force or comparison is None:
                    in_force, comparison = turn.in_force, self._find_comparison(turn)
                    differences = comparison.differences
                    tally.values = {**{format_path(path): pair for path, pair in differences.items()}, **tally.values}
                    beside = (format_path(path) for path in differences if is_outside_judging(path))
                    tally.beside.update(dict.fromkeys(beside))
                self._judge_turn(piece.session, turn, comparison, rows, tally)
        except UNREADABLE as error:
            raise explain_unreadable(piece.session, error, last) from None
        return JudgedPiece(rows, tally, self._outcomes)

    def find_keys(self, row: Row) -> tuple[str, ...]:
        """Return the keys that decide a row; raise LogError where the log cannot be read."""
        pieces = (one for one in split_session(self._log, row.session) if one.after < row.seq <= one.until)
        try:
            turns = (turn for one in pieces for turn in read_turns(self._log, replace(one, only=(row.seq,))))
            if (turn := next(turns, None)) is None:
                raise InvalidJson(f"turn {row.seq} is not where its number says; an event before it is gone or moved")
            found = self._find_comparison(turn).find_deciding_keys(turn.turn, turn.judgement, [row.call.call])
        except UNREADABLE as error:
            raise explain_unreadable(row.session, error, row.seq - 1) from None
        return tuple(map(format_path, found[row.call.call]))

    def _judge_turn(
        self, session: str, recorded: RecordedTurn, comparison: PolicyComparison, rows: list[Row], tally: WhatIfTally
    ) -> None:
        turn, judgement = recorded.turn, recorded.judgement
        result = comparison.redecide(turn, judgement)
        if self._assume is not None:
            self._outcomes.append(describe_outcome(recorded.seq, turn, judgement, result))
        apart = tally.diverged > 0
        tally.turns += 1
        (tally.apart if apart else tally.changes).update(call.change for call in result.calls)
        if not apart:
            tally.spared.update(result.spared)
        if result.is_unchanged:
            return
        changed = [call for call in result.calls if call.change != "unchanged"]
        calls = [call.call for call in changed]
        keys = comparison.find_deciding_keys(turn, judgement, calls) if self._names_keys else dict.fromkeys(calls, ())
        tally.diverged += not apart and any(call.change in DIVERGING for call in changed)
        place = Row(session, recorded.seq, recorded.time, turn.task, turn.turn, turn.actor, changed[0], apart=apart)
        for call in changed:
            bounds, deciding = tuple(find_bounds(call, comparison)), tuple(map(format_path, keys[call.call]))
            diverges = not apart and call.change in DIVERGING
            rows.append(replace(place, call=call, bounds=bounds, keys=deciding, diverges=diverges))

    def _find_comparison(self, turn: RecordedTurn) -> PolicyComparison:
        holds = turn.in_force
        key = (holds.policy_hash, strict_json.digest(holds.layers), turn.turn.catalogue_hash)
        if key not in self._comparisons:
            values, catalogue = holds.require()
            before = restore_policy(values)
            policy = self._revision.revise(before, holds.layers or {})
            self._comparisons[key] = PolicyComparison(before, policy, build_catalogue(catalogue), self._assume)
        return self._comparisons[key]


def find_bounds(call: CallChange, comparison: PolicyComparison) -> Iterator[Bound]:
    """Yield the numbers a change rests on with their bounds before and after, None for a key a policy has not."""
    for number in call.numbers:
        before: Data = comparison.before
        after: Data = comparison.after
        for step in number.path.split("."):
            before, after = getattr(before, step, None), getattr(after, step, None)
        yield Bound(number.name, number.value, number.path, before, after)

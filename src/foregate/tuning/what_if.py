"""Recorded sessions under another policy: every turn judged again, in parallel, in the order of the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from operator import attrgetter
from typing import NamedTuple

from msgspec import MsgspecError, msgpack
from msgspec.structs import replace

from foregate.gates.replay.assumption import Assumption
from foregate.policy.policy import Policy
from foregate.policy.source.layers import Layer
from foregate.policy.source.strict_yaml import Data, Path
from foregate.policy.source.values import compare_policies
from foregate.schemas import strict_json
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json

# How many events a piece has is said there alone.
from foregate.tuning import pieces as cut
from foregate.tuning.change_set import ChangeSet, find_reached
from foregate.tuning.phases import CallOutcome, FamilyPhases, Phases, TurnOutcome
from foregate.tuning.piece_judge import (
    JudgedPiece,
    PieceJudge,
    PolicyEdit,
    Revision,
    Row,
    WhatIfTally,
    read_judged_piece,
)
from foregate.tuning.piece_store import Head, PieceStore
from foregate.tuning.pieces import (
    Progress,
    SessionPiece,
    Workers,
    collect_seldom,
    split_session,
    work_on_pieces,
    work_on_sessions,
)
from foregate.tuning.reach_index import FrameKey, ReachIndex, ReachPage


class WhatIf:
    """Judges sessions of a log again under a user's layer, or with other values of keys.

    `tally` is complete once all changes are found. With an `index` that has caught up, only the turns are judged that
    the change can reach; rows and counts are the same. What the index does not hold is judged. With `assume` answers
    stand in for those the log does not hold, and `phases` counts what is exact and what is not apart. `progress` is
    told how many pieces of the sessions are through, and of how many, where there is an index.

    Finding the deciding keys of all rows takes longer than judging them. Without `names_keys` rows have none, and
    `name_keys` finds those of a row that is shown. With `keeps` what is judged is stored with the index, so that the
    same file is judged only for what was written since.
    """

    def __init__(
        self,
        log: Readable,
        user: PolicyEdit,
        workers: Workers = 0,
        index: ReachIndex | None = None,
        assume: Assumption | None = None,
        progress: Progress | None = None,
        *,
        names_keys: bool = True,
        keeps: bool = False,
    ) -> None:
        self._log, self._user, self._index, self._assume = log, user, index, assume
        self._workers, self._progress, self._names_keys = workers, progress, names_keys
        self._name = self._name_question() if keeps and isinstance(user, Layer | None) else ""
        self.phases = Phases()
        self.tally = WhatIfTally()

    def _name_question(self) -> str:
        """Return what is judged, by which its results are stored."""
        user: Json = self._user.data if isinstance(self._user, Layer) else None
        assumed: Json = self._assume.to_json() if self._assume is not None else None
        return f"what-if {strict_json.digest([[user, self._names_keys], assumed])}"

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
        for piece, found in self._judge_pieces(sessions):
            if piece.session != session:
                if session:
                    families.add_session(session, told)
                session, diverged, told = piece.session, False, []
                self.tally.sessions += 1
            told += found.outcomes
            self.tally.add_counts(found.tally, apart=diverged)
            for row in found.rows:
                yield replace(row, diverges=False, apart=True) if diverged else row
            if found.tally.diverged and not diverged:
                diverged = True
                self.tally.diverged += 1
        if session:
            families.add_session(session, told)

    def _judge_pieces(self, sessions: Sequence[str]) -> Iterator[tuple[SessionPiece, JudgedPiece]]:
        """Yield each piece of the sessions with its result, in the order of the log."""
        judge = partial(PieceJudge, edit=self._user, assume=self._assume, names_keys=self._names_keys)
        if self._index is None:
            yield from work_on_sessions(self._log, sessions, judge, self._workers)
            return
        store = self._index.kept
        if self._name:
            store.ask(self._name)
        plan = _TrialPlan(self._log, self._index, self._user, self._name)
        with collect_seldom():
            planned = [one for session in sessions for one in plan.plan_session(session)]
        pieces = [one.piece for one in planned if one.known is None and one.piece.only != ()]
        events = sum(piece.count_events() for piece in pieces)
        judged = work_on_pieces(self._log, pieces, events, judge, self._workers)
        try:
            for count, (piece, page, known) in enumerate(planned, start=1):
                found = known
                if found is None:
                    found = next(judged)[1] if piece.only != () else JudgedPiece()
                    if page is not None:
                        plan.add_unreached(page, piece.only or (), found, outcomes=self._assume is not None)
                    self._keep(store, piece, plan.heads[piece.session], found)
                yield piece, found
                if self._progress is not None:
                    self._progress(count, len(planned))
        finally:
            with suppress(sqlite3.DatabaseError):
                store.commit()

    def _keep(self, store: PieceStore, piece: SessionPiece, head: Head, found: JudgedPiece) -> None:
        if self._name:
            with suppress(sqlite3.DatabaseError, OverflowError):
                store.keep(self._name, piece, head, msgpack.encode(found))


class _Planned(NamedTuple):
    """A piece, the page that tells of the turns in it that need not be judged, and its result where it is known."""

    piece: SessionPiece
    page: ReachPage | None = None
    known: JudgedPiece | None = None


class _Revised(NamedTuple):
    """A recorded policy, what the edit makes of it, and the values in which the two differ."""

    before: Policy
    after: Policy
    differences: Mapping[Path, tuple[Data, Data]]


class _TrialPlan:
    """What is to be judged of sessions, as an index tells it; results by the name `question` are known."""

    def __init__(self, log: Readable, index: ReachIndex, edit: PolicyEdit, question: str) -> None:
        self._log, self._index, self._revision, self._question = log, index, Revision(edit), question
        self._revised: dict[tuple[str, str], _Revised] = {}
        self._sets: dict[FrameKey, ChangeSet] = {}
        self.heads: dict[str, Head] = {}

    def plan_session(self, session: str) -> Iterator[_Planned]:
        """Yield the pieces of a session: those whose result is known, and what is to be judged of the others."""
        head, begin = self._log.head_anchor(session), 0
        self.heads[session] = head
        for number, known in enumerate(self._read_known(session, head)):
            begin = min((number + 1) * cut.EVENTS_PER_PIECE, max(head[0], 1))
            yield _Planned(SessionPiece(session, number * cut.EVENTS_PER_PIECE, begin, ()), known=known)
        if begin < max(head[0], 1):
            yield from (one for one in self._plan_by_index(session) if one.piece.after >= begin)

    def _read_known(self, session: str, head: Head) -> Iterator[JudgedPiece]:
        bodies = self._index.kept.read(self._question, session, head)[0] if self._question else []
        with suppress(MsgspecError):
            for body in bodies:
                yield read_judged_piece(body)

    def _plan_by_index(self, session: str) -> Iterator[_Planned]:
        pages = self._index.find_pages(session)
        if pages is None:
            yield from map(_Planned, split_session(self._log, session))
            return
        reached = [tuple(find_reached(page, self._change_frames(page), [0])) for page in pages]
        if any(reached):
            pieces = split_session(self._log, session)
        else:
            # Nothing of it is read.
            starts = range(0, len(pages) * cut.EVENTS_PER_PIECE, cut.EVENTS_PER_PIECE)
            pieces = (SessionPiece(session, after, after + cut.EVENTS_PER_PIECE, ()) for after in starts)
        for piece, page, only in zip(pieces, pages, reached, strict=True):
            yield _Planned(replace(piece, only=only), page)

    def _change_frames(self, page: ReachPage) -> Mapping[FrameKey, ChangeSet]:
        for frame in page.frames:
            if frame.key not in self._sets:
                revised = self._revise(frame.key)
                self._sets[frame.key] = ChangeSet(revised.before)
                self._sets[frame.key].add(0, (), partial(getattr, revised, "after"))
        return self._sets

    def _revise(self, key: FrameKey) -> _Revised:
        """Return the policy of a frame and what the edit makes of it, the same for frames that share it."""
        if key[:2] not in self._revised:
            before, layers = self._index.get_frame(key)
            after = self._revision.revise(before, layers)
            self._revised[key[:2]] = _Revised(before, after, compare_policies(before, after))
        return self._revised[key[:2]]

    def add_unreached(self, page: ReachPage, only: Sequence[int], found: JudgedPiece, *, outcomes: bool) -> None:
        """Count the turns of a page that were not judged again: their calls come out as recorded."""
        tally = found.tally
        tally.values, tally.beside = {}, {}
        for key in page.list_frames():
            tally.name_differences(self._revise(key).differences)
        first = next((row.seq for row in found.rows if row.diverges), None)
        judged = set(only)
        for turn in page.turns:
            if turn.seq not in judged:
                tally.turns += 1
                apart = first is not None and turn.seq > first
                (tally.apart if apart else tally.changes)["unchanged"] += len(turn.digests)
                if outcomes:
                    calls = tuple(CallOutcome(digest, "unchanged", False) for digest in turn.digests)
                    found.outcomes.append(TurnOutcome(turn.seq, turn.task, calls, turn.asked, turn.asked))
        found.outcomes.sort(key=attrgetter("seq"))

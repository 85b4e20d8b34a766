"""Recorded sessions under another policy: every turn judged again, in parallel, in the order of the log."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from foregate.gates.replay.redecide import DIVERGING, CallChange, PolicyComparison
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import replace_user_layer, restore_policy
from foregate.policy.source.strict_yaml import Data, format_path
from foregate.policy.source.values import is_outside_judging
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, LogError
from foregate.schemas.event import TurnJudged
from foregate.schemas.event_body import PolicyChanged
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import build_catalogue
from foregate.telemetry.audit.rebuild_turn import JUDGING, LAYING, EventWindow, InForce, RecordedTurn, read_judged_turns
from foregate.telemetry.log.sqlite_log import SqliteLog

CHUNK = 2000
"""Events of a session that are judged again as one piece of work."""
WORTH_WORKERS = 4 * CHUNK
"""Events from which starting further processes takes less time than it saves."""
_AHEAD = 4
_REPLACED = {
    "session_started": ("policy", "catalogue"),
    "catalog_changed": ("catalogue",),
    "policy_changed": ("policy",),
}
"""What holds anew from an event of a kind on."""
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, InvalidJson)


class Bound(Struct, frozen=True):
    """A number a ruling rests on: its value, the policy key of its bound, and that bound before and after."""

    name: str
    value: int
    key: str
    before: Data
    after: Data


class Row(Struct, frozen=True):
    """A call that comes out differently: where it stands in the log, how it differs, and which keys decide that.

    `diverges` marks the turn from which the session would have gone another way; `apart` all that follows it.
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


@dataclass
class WhatIfTally:
    """Counts of what came out how: before and at each session's first divergence, and after it."""

    sessions: int = 0
    diverged: int = 0
    turns: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    apart: Counter[str] = field(default_factory=Counter)
    spared: Counter[str] = field(default_factory=Counter)
    values: dict[str, tuple[Data, Data]] = field(default_factory=dict)
    beside: dict[str, None] = field(default_factory=dict)

    def add_counts(self, other: WhatIfTally, *, apart: bool) -> None:
        """Take in the counts of a further piece of a session; with `apart` all of it follows a divergence."""
        self.turns += other.turns
        self.apart.update(other.apart)
        (self.apart if apart else self.changes).update(other.changes)
        if not apart:
            self.spared.update(other.spared)
        self.values = {**other.values, **self.values}
        self.beside.update(other.beside)


@dataclass(frozen=True)
class SessionPiece:
    """Some events of a session, and the numbers of the events that say which policy and tools hold before them."""

    session: str
    after: int
    until: int
    laid: tuple[int, ...]


class WhatIf:
    """Judges sessions of a log again under the user's layer `user`; `tally` is complete once all changes are found."""

    def __init__(self, log: Readable, user: Layer | None, workers: int = 0) -> None:
        self._log, self._user = log, user
        self._workers = workers or cores()
        self.tally = WhatIfTally()

    def find_changes(self, sessions: Sequence[str]) -> Iterator[Row]:
        """Yield every call that comes out differently, session by session, in the order of the log.

        Raises LogError for a log that cannot be read and PolicyError where a session's workspace file would be
        refused over the user's.
        """
        session, diverged = "", False
        for piece, rows, tally in self._judge_pieces(sessions):
            if piece.session != session:
                session, diverged = piece.session, False
                self.tally.sessions += 1
            self.tally.add_counts(tally, apart=diverged)
            for row in rows:
                yield replace(row, diverges=False, apart=True) if diverged else row
            if tally.diverged and not diverged:
                diverged = True
                self.tally.diverged += 1

    def _judge_pieces(self, sessions: Sequence[str]) -> Iterator[tuple[SessionPiece, list[Row], WhatIfTally]]:
        size = sum(self._log.head_anchor(session)[0] for session in sessions)
        pieces = (piece for session in sessions for piece in split_session(self._log, session))
        if self._workers > 1 and size > WORTH_WORKERS and isinstance(self._log, SqliteLog):
            yield from _judge_in_processes(pieces, self._log.path, self._user, self._workers)
        else:
            judge = PieceJudge(self._log, self._user)
            for piece in pieces:
                yield piece, *judge(piece)


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def split_session(log: Readable, session: str) -> Iterator[SessionPiece]:
    """Yield a session in pieces; raise LogError for an unknown one."""
    last, _ = log.head_anchor(session)
    laying = [
        (event.seq, _REPLACED[event.kind])
        for event in log.events(session, kinds=LAYING)
        if not isinstance(event.body, PolicyChanged) or event.body.policy is not None
    ]
    for after in range(0, max(last, 1), CHUNK):
        laid: dict[str, int] = {}
        for seq, what in laying:
            if seq <= after:
                laid.update(dict.fromkeys(what, seq))
        yield SessionPiece(session, after, after + CHUNK, tuple(sorted(set(laid.values()))))


class PieceJudge:
    """Judges pieces of sessions again; policies and gates are kept from one piece to the next."""

    def __init__(self, log: Readable, user: Layer | None) -> None:
        self._log, self._user = log, user
        self._comparisons: dict[tuple[str, str, str], PolicyComparison] = {}

    def __call__(self, piece: SessionPiece) -> tuple[list[Row], WhatIfTally]:
        """Return the rows of a piece and its counts; raise LogError where the log cannot be read."""
        near, rows, tally = EventWindow(self._log, piece.session), list[Row](), WhatIfTally()
        judging = self._log.events(piece.session, after=piece.after, until=piece.until, kinds=JUDGING)
        # the call of an early read is judged with its response
        events = (event for event in judging if not (isinstance(event.body, TurnJudged) and event.body.early))
        last = piece.after
        try:
            start, comparison = InForce(), None
            for seq in piece.laid:
                start = start.apply(near(seq))
            for turn in read_judged_turns(near.follow(events), near, start):
                last = turn.seq
                if turn.in_force is not start or comparison is None:
                    start, comparison = turn.in_force, self._find_comparison(turn)
                    differences = comparison.differences
                    tally.values = {**{format_path(path): pair for path, pair in differences.items()}, **tally.values}
                    beside = (format_path(path) for path in differences if is_outside_judging(path))
                    tally.beside.update(dict.fromkeys(beside))
                self._judge_turn(piece.session, turn, comparison, rows, tally)
        except _UNREADABLE as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            failed = f"session `{piece.session}` cannot be judged again after event {last} ({why})"
            raise LogError(f"{failed}; `foregate audit verify` tells what was changed") from None
        return rows, tally

    def _judge_turn(
        self, session: str, recorded: RecordedTurn, comparison: PolicyComparison, rows: list[Row], tally: WhatIfTally
    ) -> None:
        turn, judgement = recorded.turn, recorded.judgement
        result = comparison.redecide(turn, judgement)
        apart = tally.diverged > 0
        tally.turns += 1
        (tally.apart if apart else tally.changes).update(call.change for call in result.calls)
        if not apart:
            tally.spared.update(result.spared)
        if result.is_unchanged:
            return
        changed = [call for call in result.calls if call.change != "unchanged"]
        keys = comparison.find_deciding_keys(turn, judgement, [call.call for call in changed])
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
            policy = replace_user_layer(self._user, holds.layers or {})
            self._comparisons[key] = PolicyComparison(restore_policy(values), policy, build_catalogue(catalogue))
        return self._comparisons[key]


def find_bounds(call: CallChange, comparison: PolicyComparison) -> Iterator[Bound]:
    """Yield the numbers a change rests on with their bounds before and after, None for a key a policy has not."""
    for number in call.numbers:
        before: Data = comparison.before
        after: Data = comparison.after
        for step in number.path.split("."):
            before, after = getattr(before, step, None), getattr(after, step, None)
        yield Bound(number.name, number.value, number.path, before, after)


def _judge_in_processes(
    pieces: Iterable[SessionPiece], path: Path, user: Layer | None, workers: int
) -> Iterator[tuple[SessionPiece, list[Row], WhatIfTally]]:
    """Yield what worker processes find, in the order of the pieces; few pieces are under way at a time."""
    under_way: deque[tuple[SessionPiece, Future[tuple[list[Row], WhatIfTally]]]] = deque()
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _start_worker, (path, user))
    try:
        for piece in pieces:
            under_way.append((piece, pool.submit(_judge_piece, piece)))
            if len(under_way) >= _AHEAD * workers:
                done, future = under_way.popleft()
                yield done, *future.result()
        for done, future in under_way:
            yield done, *future.result()
    except BrokenProcessPool:
        why = "a process that judges recorded turns was ended from outside; see whether memory ran out"
        raise LogError(why) from None
    finally:
        pool.shutdown(cancel_futures=True)


_judge: PieceJudge | None = None


def _start_worker(path: Path, user: Layer | None) -> None:
    """Prepare a worker process: it reads the log by itself, leaves Ctrl-C to its parent, and ends with it."""
    global _judge
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _judge = PieceJudge(SqliteLog(path, create=False), user)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _judge_piece(piece: SessionPiece) -> tuple[list[Row], WhatIfTally]:
    assert _judge is not None
    return _judge(piece)

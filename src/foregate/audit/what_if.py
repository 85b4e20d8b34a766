"""Recorded sessions under another policy: every turn judged again, in parallel, in the order of the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from foregate.audit.pieces import UNREADABLE, SessionPiece, read_turns, work_on_sessions
from foregate.gates.replay.redecide import DIVERGING, CallChange, PolicyComparison
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import replace_user_layer, restore_policy
from foregate.policy.source.strict_yaml import Data, format_path
from foregate.policy.source.values import is_outside_judging
from foregate.schemas import strict_json
from foregate.schemas.errors import LogError
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


class WhatIf:
    """Judges sessions of a log again under the user's layer `user`; `tally` is complete once all changes are found."""

    def __init__(self, log: Readable, user: Layer | None, workers: int = 0) -> None:
        self._log, self._user = log, user
        self._workers = workers
        self.tally = WhatIfTally()

    def find_changes(self, sessions: Sequence[str]) -> Iterator[Row]:
        """Yield every call that comes out differently, session by session, in the order of the log.

        Raises LogError for a log that cannot be read and PolicyError where a session's workspace file would be
        refused over the user's.
        """
        session, diverged = "", False
        judge = partial(PieceJudge, user=self._user)
        for piece, (rows, tally) in work_on_sessions(self._log, sessions, judge, self._workers):
            if piece.session != session:
                session, diverged = piece.session, False
                self.tally.sessions += 1
            self.tally.add_counts(tally, apart=diverged)
            for row in rows:
                yield replace(row, diverges=False, apart=True) if diverged else row
            if tally.diverged and not diverged:
                diverged = True
                self.tally.diverged += 1


class PieceJudge:
    """Judges pieces of sessions again; policies and gates are kept from one piece to the next."""

    def __init__(self, log: Readable, user: Layer | None) -> None:
        self._log, self._user = log, user
        self._comparisons: dict[tuple[str, str, str], PolicyComparison] = {}

    def __call__(self, piece: SessionPiece) -> tuple[list[Row], WhatIfTally]:
        """Return the rows of a piece and its counts; raise LogError where the log cannot be read."""
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

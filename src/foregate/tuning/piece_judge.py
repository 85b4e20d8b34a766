"""Judging pieces of recorded sessions again under another policy: the calls that come out differently, and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct, field, msgpack, to_builtins
from msgspec.structs import replace

from foregate.evidence.state.recorded_turns import RecordedTurn
from foregate.gates.replay.assumption import Assumption
from foregate.gates.replay.redecide import DIVERGING, CallChange, PolicyComparison
from foregate.policy.policy import Policy
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import BESIDE_USER, replace_user_layer, restore_policy
from foregate.policy.source.strict_yaml import Data, Path, format_path
from foregate.policy.source.users import is_outside_judging
from foregate.policy.source.values import replace_values
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import build_catalogue
from foregate.tuning.phases import TurnOutcome, describe_outcome
from foregate.tuning.pieces import UNREADABLE, SessionPiece, explain_unreadable, read_turns, split_session


class KeyChange(Struct, frozen=True):
    """Other values by their paths; None takes a rule or an entry out."""

    values: Mapping[Path, Data]


PolicyEdit = Layer | KeyChange | None
"""What is tried: another user's file (None for none), or other values of single keys."""


class Revision:
    """Makes of recorded policies what an edit makes of them: of those that differ in the user's file alone, one."""

    def __init__(self, edit: PolicyEdit) -> None:
        self._edit = edit
        self._made: dict[str, Policy] = {}

    def revise(self, before: Policy, layers: Mapping[str, Json]) -> Policy:
        """Return the policy the change makes of one that was recorded with its layers.

        Raises PolicyError where a workspace's file would be refused, ValueError where the values make no policy.
        """
        if isinstance(self._edit, KeyChange):
            return replace_values(before, self._edit.values)
        beside = strict_json.digest({name: layers.get(name) for name in BESIDE_USER})
        if beside not in self._made:
            self._made[beside] = replace_user_layer(self._edit, layers)
        return self._made[beside]


class PieceBound(Struct, frozen=True):
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
    bounds: tuple[PieceBound, ...] = ()
    keys: tuple[str, ...] = ()
    diverges: bool = False
    apart: bool = False

    def to_json(self) -> Json:
        """Return the row as JSON values, every column present."""
        row: dict[str, Json] = to_builtins(self)
        return {"kind": "call", **row}


class WhatIfTally(Struct):
    """Counts of calls by how they come out: before and at each session's first divergence, and apart what follows it.

    `spared` are questions that would not have been asked. `values` has by key what the policies differ in, and `beside`
    the keys that judging does not read.
    """

    sessions: int = 0
    diverged: int = 0
    turns: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    apart: Counter[str] = field(default_factory=Counter)
    spared: Counter[str] = field(default_factory=Counter)
    values: dict[str, tuple[Data, Data]] = field(default_factory=dict)
    beside: dict[str, None] = field(default_factory=dict)

    def name_differences(self, differences: Mapping[Path, tuple[Data, Data]]) -> None:
        """Name what the policy of a turn differs in from the one it is judged under."""
        self.values = {**{format_path(path): pair for path, pair in differences.items()}, **self.values}
        self.beside.update(dict.fromkeys(format_path(path) for path in differences if is_outside_judging(path)))

    def add_counts(self, other: WhatIfTally, *, apart: bool) -> None:
        """Take in the counts of a further piece of a session; with `apart` all of it follows a divergence."""
        self.turns += other.turns
        self.apart.update(other.apart)
        (self.apart if apart else self.changes).update(other.changes)
        if not apart:
            self.spared.update(other.spared)
        self.values = {**other.values, **self.values}
        self.beside.update(other.beside)


class JudgedPiece(Struct):
    """The result of a piece: its rows and counts, and where answers are assumed the outcome of each turn."""

    rows: list[Row] = []
    tally: WhatIfTally = field(default_factory=WhatIfTally)
    outcomes: list[TurnOutcome] = []


_STORED = msgpack.Decoder(JudgedPiece, dec_hook=lambda kind, value: kind(value))


def read_judged_piece(body: bytes) -> JudgedPiece:
    """Return a judged piece from its MessagePack; raise MsgspecError for what is none."""
    return _STORED.decode(body)


class PieceJudge:
    """Judges pieces of sessions again; policies and gates are built once for all pieces."""

    def __init__(
        self, log: Readable, edit: PolicyEdit, assume: Assumption | None = None, *, names_keys: bool = True
    ) -> None:
        self._log, self._revision, self._assume, self._names_keys = log, Revision(edit), assume, names_keys
        self._comparisons: dict[tuple[str, str, str], PolicyComparison] = {}

    def __call__(self, piece: SessionPiece) -> JudgedPiece:
        """Return the rows of a piece and its counts; raise LogError where the log cannot be read."""
        found, last = JudgedPiece(), piece.after
        in_force, comparison = None, None
        try:
            # the call of an early read is judged with its response
            for turn in read_turns(self._log, piece):
                last = turn.seq
                if turn.in_force is not in_force or comparison is None:
                    in_force, comparison = turn.in_force, self._find_comparison(turn)
                    found.tally.name_differences(comparison.differences)
                self._judge_turn(piece.session, turn, comparison, found)
        except UNREADABLE as error:
            raise explain_unreadable(piece.session, error, last) from None
        return found

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
        self, session: str, recorded: RecordedTurn, comparison: PolicyComparison, found: JudgedPiece
    ) -> None:
        turn, judgement, tally = recorded.turn, recorded.judgement, found.tally
        result = comparison.redecide(turn, judgement)
        if self._assume is not None:
            found.outcomes.append(describe_outcome(recorded.seq, turn, judgement, result))
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
            found.rows.append(replace(place, call=call, bounds=bounds, keys=deciding, diverges=diverges))

    def _find_comparison(self, turn: RecordedTurn) -> PolicyComparison:
        holds = turn.in_force
        key = (holds.policy_hash, strict_json.digest(holds.layers), turn.turn.catalogue_hash)
        if key not in self._comparisons:
            values, catalogue = holds.require()
            before = restore_policy(values)
            policy = self._revision.revise(before, holds.layers or {})
            self._comparisons[key] = PolicyComparison(before, policy, build_catalogue(catalogue), self._assume)
        return self._comparisons[key]


def find_bounds(call: CallChange, comparison: PolicyComparison) -> Iterator[PieceBound]:
    """Yield the numbers a change rests on with their bounds before and after, None for a key a policy has not."""
    for number in call.numbers:
        before: Data = comparison.before
        after: Data = comparison.after
        for step in number.path.split("."):
            before, after = getattr(before, step, None), getattr(after, step, None)
        yield PieceBound(number.name, number.value, number.path, before, after)

"""Figures of recorded turns: as recorded, and by how much they change where a value passes a place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from msgspec import Struct, field

from foregate.evidence.state.recorded_turns import LAYING, EventWindow, InForce, Lookup, RecordedTurn, find_body
from foregate.gates.replay.reach import list_condition_paths
from foregate.gates.replay.sweep_turn import SweptTurn, TurnEnd, TurnSweep, describe_end, find_numeric_key
from foregate.policy.source.load import restore_policy
from foregate.policy.source.strict_yaml import Path
from foregate.schemas.errors import LogError
from foregate.schemas.event import NeedAnswered, TurnJudged
from foregate.schemas.judgement import Who
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import build_catalogue
from foregate.schemas.version import __version__
from foregate.telemetry.log.chain import is_unchanged
from foregate.tuning.pieces import UNREADABLE, SessionPiece, explain_unreadable, read_turns, split_session
from foregate.tuning.reach_index import ReachIndex, ReachPage, read_condition

Place = tuple[int, ...]


def list_axes(places: Iterable[Place], lowest: Place) -> list[list[int]]:
    """Return for each key the values at which anything changes, ascending from the lowest."""
    found = [{low} for low in lowest]
    for place in places:
        for axis, at in zip(found, place, strict=True):
            axis.add(at)
    return [sorted(axis) for axis in found]


def sum_up_places(changes: Mapping[Place, int], axes: Sequence[Sequence[int]]) -> dict[Place, int]:
    """Return what a figure is at each place of the axes: all changes up to there, taken together.

    >>> sum_up_places({(0,): 5, (7,): -2}, [[0, 3, 7]])
    {(0,): 5, (3,): 5, (7,): 3}
    """
    first = axes[0]
    if len(axes) == 1:
        sums = accumulate(changes.get((at,), 0) for at in first)
        return {(at,): total for at, total in zip(first, sums, strict=True)}
    found, row = dict[Place, int](), [0] * len(axes[1])
    for at in first:
        row = [known + changes.get((at, other), 0) for known, other in zip(row, axes[1], strict=True)]
        found |= {(at, other): total for other, total in zip(axes[1], accumulate(row), strict=True)}
    return found


What = Literal["held", "asked", Who]
"""What is counted of a gate: calls it holds or denies, calls it asks a person about, questions to each."""


class CallFigure(NamedTuple):
    """What is counted of a turn: a call that a gate holds or asks about, or with no call a question of a gate."""

    call: str
    gate: str
    what: What


class TurnChange(NamedTuple):
    """By how much a figure of a turn changes where the keys reach a place, counted from what is recorded."""

    seq: int
    figure: CallFigure
    place: Place
    by: int


def list_figures(end: TurnEnd) -> Iterator[CallFigure]:
    """Yield what is counted of how a turn ends."""
    for call, gate in end.stopped:
        yield CallFigure(call, gate, "held")
    for gate, who, calls in end.asked:
        yield CallFigure("", gate, who)
        yield from (CallFigure(call, gate, "asked") for call in calls if who == "person")


def list_changes(seq: int, recorded: TurnEnd, parts: Sequence[SweptTurn]) -> Iterator[TurnChange]:
    """Yield the changes of a turn: those up to a value, added to what is recorded, are what it comes to there."""
    last = parts[-1].high
    found = Counter[tuple[Place, CallFigure]]()
    for low, high, end, factor in (*((*part, 1) for part in parts), (parts[0].low, last, recorded, -1)):
        for place, sign in find_corners(low, high):
            if all(at <= most for at, most in zip(place, last, strict=True)):
                for figure in list_figures(end):
                    found[place, figure] += sign * factor
    for (place, figure), by in sorted(found.items()):
        if by:
            yield TurnChange(seq, figure, place, by)


def find_corners(low: Place, high: Place) -> Iterator[tuple[Place, int]]:
    """Yield where a figure rises and falls, so that summing up along each key gives it from `low` to `high` alone."""
    if len(low) == 1:
        yield low, 1
        yield (high[0] + 1,), -1
        return
    (a, c), (b, d) = low, high
    yield from (((a, c), 1), ((b + 1, c), -1), ((a, d + 1), -1), ((b + 1, d + 1), 1))


def read_recorded_end(turn: RecordedTurn) -> TurnEnd:
    """Return what a turn came to; the loop's own question is none of a gate."""
    return describe_end(turn.judgement, (answer for answer in turn.turn.answers if answer.gate != "loop"))


class PieceSweeper:
    """Sweeps pieces of sessions; policies and gates are kept from one piece to the next."""

    def __init__(self, log: Readable, keys: tuple[str, ...]) -> None:
        self._log, self._keys = log, keys
        self._sweeps: dict[tuple[str, str], TurnSweep] = {}

    def __call__(self, piece: SessionPiece) -> tuple[int, list[TurnChange]]:
        """Return how many turns of a piece were judged, and the changes in it.

        Raises LogError where the log cannot be read, UsageError for keys that cannot be swept.
        """
        try:
            changes = [self._sweep(turn) for turn in read_turns(self._log, piece) if turn.turn.calls]
            return len(changes), [change for found in changes for change in found]
        except UNREADABLE as error:
            raise explain_unreadable(piece.session, error) from None

    def _sweep(self, turn: RecordedTurn) -> list[TurnChange]:
        holds = turn.in_force
        key = holds.policy_hash, turn.turn.catalogue_hash
        if key not in self._sweeps:
            values, catalogue = holds.require()
            policy = restore_policy(values)
            paths = [find_numeric_key(name, policy)[0] for name in self._keys]
            self._sweeps[key] = TurnSweep(policy, build_catalogue(catalogue), paths)
        return list(list_changes(turn.seq, read_recorded_end(turn), list(self._sweeps[key].sweep(turn.turn))))


def plan_pieces(
    log: Readable, index: ReachIndex | None, keys: Sequence[Path], session: str, begin: int = 0
) -> Iterator[SessionPiece]:
    """Yield what of a session, from behind an event on, must be judged: the turns that rest on a key, or do not come
    out as recorded. Without an index, or where it does not know the session, that is every turn."""
    pages = index.find_pages(session) if index is not None else None
    if pages is None:
        yield from split_session(log, session, begin)
        return
    reached = sorted(seq for page in pages for seq in list_reached(page, keys) if seq > begin)
    for piece in split_session(log, session, begin) if reached else ():
        if only := tuple(seq for seq in reached if piece.after < seq <= piece.until):
            yield SessionPiece(piece.session, piece.after, piece.until, piece.in_force_at, only)


def list_reached(page: ReachPage, keys: Sequence[Path]) -> Iterator[int]:
    """Yield the turns with calls on a page that rest on one of the keys, or do not come out as recorded."""
    touched = [{number for number, text in one.conditions.items() if _is_about(text, keys)} for one in page.frames]
    all_of = [one.is_built_on_any(found) for found, one in zip(touched, page.frames, strict=True)]
    for turn in page.turns:
        rests = all_of[turn.frame] or not touched[turn.frame].isdisjoint(turn.conditions)
        if turn.digests != ("",) and (rests or not turn.is_same):
            yield turn.seq


def _is_about(condition: str, keys: Sequence[Path]) -> bool:
    """Whether a condition is about a key, what holds it, or what is in it."""
    names = [tuple(map(str, key)) for key in keys]
    paths = list_condition_paths(read_condition(condition))
    return any(path[: len(key)] == key[: len(path)] for path in paths for key in names)


Counted = tuple[str, str, Literal["turns", "others", "calls", What]]
"""The hash of a policy, a gate ("" for none), and what is counted: turns, those of `others` that another version of
Foregate judged, calls, and figures of gates."""


class RecordedCounts(Struct):
    """Counts of turns, by the policy they were judged under, and these policies by their hashes."""

    counts: Counter[Counted] = field(default_factory=Counter)
    policies: dict[str, Mapping[str, Json]] = field(default_factory=dict)

    def add(self, other: RecordedCounts) -> None:
        """Take in the counts of a further piece."""
        self.counts.update(other.counts)
        self.policies.update(other.policies)


class PieceCounter:
    """Counts pieces of sessions."""

    def __init__(self, log: Readable) -> None:
        self._log = log

    def __call__(self, piece: SessionPiece) -> RecordedCounts:
        """Return the counts of a piece; raise LogError where the log cannot be read."""
        found, near = RecordedCounts(), EventWindow(self._log, piece.session)
        kinds = (*LAYING, "need_answered", "turn_judged")
        try:
            holds = InForce.of(map(near, piece.in_force_at))
            events = self._log.events(piece.session, after=piece.after, until=piece.until, kinds=kinds)
            for event in near.follow(events):
                holds = holds.apply(event) if event.kind in LAYING else holds
                if isinstance(event.body, TurnJudged) and not event.body.early:
                    self._count(event.body, near, holds, found)
                    found.counts[holds.policy_hash, "", "others"] += event.foregate != __version__
        except UNREADABLE as error:
            raise explain_unreadable(piece.session, error) from None
        return found

    def _count(self, body: TurnJudged, near: EventWindow, holds: InForce, found: RecordedCounts) -> None:
        policy, _ = holds.require()
        found.policies[holds.policy_hash] = policy
        found.counts[holds.policy_hash, "", "turns"] += 1
        found.counts[holds.policy_hash, "", "calls"] += len(body.judgement.verdicts)
        found.counts.update((holds.policy_hash, one.gate, one.what) for one in list_figures(read_end(body, near)))


def read_end(body: TurnJudged, lookup: Lookup) -> TurnEnd:
    """Return what a recorded turn came to; `lookup` finds the answers. Raises LookupError for one that is gone."""
    answers = (find_body(seq, NeedAnswered, lookup).answer for seq in body.turn.answers)
    return describe_end(body.judgement, (answer for answer in answers if answer.gate != "loop"))


def read_turn_end(log: Readable, session: str, seq: int, event: str = "") -> TurnEnd | None:
    """Return what the turn that an event judged came to; None where that event is missing.

    With the hash `event`, None too where the event has another one, or is not what that was made of.
    """
    near = EventWindow(log, session)
    try:
        found = near(seq)
        same = not event or (event == found.hash and is_unchanged(found))
        return read_end(found.body, near) if same and isinstance(found.body, TurnJudged) else None
    except (*UNREADABLE, LogError):
        return None

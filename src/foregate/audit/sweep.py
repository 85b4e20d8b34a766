"""What recorded decisions come to for every value of one or two keys of the policy, counted where anything turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from foregate.audit.pieces import UNREADABLE, SessionPiece, read_turns, work_on_sessions
from foregate.gates.replay.sweep_turn import SweptTurn, TurnSweep, find_domain, find_numeric_key
from foregate.policy.source.load import restore_policy
from foregate.policy.source.strict_yaml import Path
from foregate.schemas.errors import LogError
from foregate.schemas.judgement import Standing
from foregate.schemas.protocols import Readable
from foregate.schemas.tool_spec import build_catalogue
from foregate.telemetry.audit.rebuild_turn import RecordedTurn
from foregate.telemetry.review.reviews import Reviews

MEASURES = ("held", "prompts", "planner", "critic", "agreed")
Labels = Mapping[tuple[str, int], Sequence[tuple[str, str]]]
"""By session and the event that judged a turn, the calls that were labelled and with what."""
Deltas = Counter[tuple[tuple[int, ...], str]]
"""How much each measure changes at a place: summed up from the least value on, it is the measure."""


class SweepPoint(Struct, frozen=True):
    """What all decisions come to for the values from `low` to `high`; `front` says that no other values are better.

    `agreed` counts the labelled calls that come out as their labels want it.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    held: int
    prompts: int
    requests: int
    agreed: int
    front: bool = False


@dataclass(frozen=True)
class SweepResult:
    """A sweep: the points in order, how many turns and labels they rest on, and the values the turns had."""

    keys: tuple[str, ...]
    points: Sequence[SweepPoint]
    turns: int
    labels: int
    now: Mapping[tuple[int, ...], int]


def read_labels(reviews: Reviews) -> Labels:
    """Return the labels that stand and agree, by turn; where reviewers differ, a ruling has none."""
    found: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for given in reviews.list_standing():
        said, ruled = {one.body.label for one in given}, given[0].body.ruled
        if len(said) == 1 and ruled.call:
            found.setdefault((ruled.session, ruled.seq), []).append((ruled.call, str(said.pop())))
    return found


def sweep_sessions(
    log: Readable, sessions: Sequence[str], keys: Sequence[str], labels: Labels, workers: int = 0
) -> SweepResult:
    """Return what the turns of sessions come to for every value of the keys, each under its own policy otherwise.

    Raises UsageError for a key that cannot be swept, and LogError for a log that cannot be read.
    """
    deltas, turns, labelled, now = Deltas(), 0, 0, Counter[tuple[int, ...]]()
    for _, found in work_on_sessions(log, sessions, partial(PieceSweeper, keys=tuple(keys), labels=labels), workers):
        deltas.update(found.deltas)  # adds, so that what was taken away stays so
        turns, labelled = turns + found.turns, labelled + found.labels
        now.update(found.now)
    points = list(_sum_up(deltas, keys)) if turns else []
    return SweepResult(tuple(keys), mark_front(points, has_labels=labelled > 0), turns, labelled, now)


@dataclass
class PieceCounts:
    """The changes of all measures in a piece of a session."""

    deltas: Deltas
    now: Counter[tuple[int, ...]]
    turns: int = 0
    labels: int = 0


class PieceSweeper:
    """Sweeps pieces of sessions; policies and gates are kept from one piece to the next."""

    def __init__(self, log: Readable, keys: tuple[str, ...], labels: Labels) -> None:
        self._log, self._keys, self._labels = log, keys, labels
        self._sweeps: dict[tuple[str, str], tuple[TurnSweep, tuple[int, ...]]] = {}

    def __call__(self, piece: SessionPiece) -> PieceCounts:
        """Return the changes in a piece; raise LogError where the log cannot be read."""
        found = PieceCounts(Deltas(), Counter())
        try:
            for turn in read_turns(self._log, piece):
                if turn.turn.calls:
                    self._add_turn(piece.session, turn, found)
        except UNREADABLE as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            failed = f"session `{piece.session}` cannot be judged again ({why})"
            raise LogError(f"{failed}; `foregate audit verify` tells what was changed") from None
        return found

    def _add_turn(self, session: str, recorded: RecordedTurn, found: PieceCounts) -> None:
        sweep, now = self._find_sweep(recorded)
        verdicts = recorded.judgement.verdicts
        stopped = {one.call for one in verdicts if one.standing is not Standing.ALLOW}
        labels = self._labels.get((session, recorded.seq), ())
        wanted = [(call, label, call in stopped) for call, label in labels]
        found.turns, found.labels = found.turns + 1, found.labels + len(wanted)
        found.now[now] += 1
        for part in sweep.sweep(recorded.turn):
            counts = {name: getattr(part.counts, name) for name in MEASURES[:-1]}
            counts["agreed"] = sum(_agrees(label, then, call in part.stopped) for call, label, then in wanted)
            for name, count in counts.items():
                if count:
                    for place, sign in _find_corners(part):
                        found.deltas[place, name] += sign * count

    def _find_sweep(self, recorded: RecordedTurn) -> tuple[TurnSweep, tuple[int, ...]]:
        holds = recorded.in_force
        key = holds.policy_hash, recorded.turn.catalogue_hash
        if key not in self._sweeps:
            values, catalogue = holds.require()
            policy = restore_policy(values)
            found = [find_numeric_key(name, policy) for name in self._keys]
            sweep = TurnSweep(policy, build_catalogue(catalogue), [path for path, _ in found])
            self._sweeps[key] = sweep, tuple(value for _, value in found)
        return self._sweeps[key]


def _agrees(label: str, then: bool, now: bool) -> bool:
    """Whether a call comes out as its label wants it: one that is unclear never does."""
    match label:
        case "right":
            return then == now
        case "too_strict":
            return not now
        case "too_lax":
            return now
        case _:
            return False


def _find_corners(part: SweptTurn) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield where a measure rises and falls, so that summing up along each key gives it inside the part alone."""
    if len(part.low) == 1:
        yield part.low, 1
        yield (part.high[0] + 1,), -1
        return
    (a, c), (b, d) = part.low, part.high
    yield from (((a, c), 1), ((b + 1, c), -1), ((a, d + 1), -1), ((b + 1, d + 1), 1))


def _sum_up(deltas: Deltas, keys: Sequence[str]) -> Iterator[SweepPoint]:
    """Yield the points between the places at which anything changes."""
    domains = [find_domain(_split(key)) for key in keys]
    places = [
        sorted({low, *(place[axis] for (place, _), by in deltas.items() if by and low <= place[axis] <= high)})
        for axis, (low, high) in enumerate(domains)
    ]
    ends = [[*(at - 1 for at in axis[1:]), high] for axis, (_, high) in zip(places, domains, strict=True)]
    totals = {name: _accumulate(deltas, name, places) for name in MEASURES}
    for at in totals["held"]:
        indexes = [axis.index(value) for axis, value in zip(places, at, strict=True)]
        high = tuple(axis[index] for axis, index in zip(ends, indexes, strict=True))
        found = {name: totals[name][at] for name in MEASURES}
        requests = found["planner"] + found["critic"]
        yield SweepPoint(at, high, found["held"], found["prompts"], requests, found["agreed"])


def _accumulate(deltas: Deltas, name: str, places: Sequence[Sequence[int]]) -> dict[tuple[int, ...], int]:
    first = places[0]
    if len(places) == 1:
        sums = accumulate(deltas[(at,), name] for at in first)
        return {(at,): total for at, total in zip(first, sums, strict=True)}
    found, row = dict[tuple[int, ...], int](), [0] * len(places[1])
    for at in first:
        row = [known + deltas[(at, other), name] for known, other in zip(row, places[1], strict=True)]
        found |= {(at, other): total for other, total in zip(places[1], accumulate(row), strict=True)}
    return found


def _split(key: str) -> Path:
    return tuple(key.split("."))


def mark_front(points: Sequence[SweepPoint], *, has_labels: bool) -> list[SweepPoint]:
    """Return the points, those marked that no other beats: with no more prompts and requests, and no less agreement.

    Without labels nobody knows what is right, so holding as much stands in its place.
    """

    def cost(one: SweepPoint) -> tuple[int, int, int]:
        return one.prompts, one.requests, -(one.agreed if has_labels else one.held)

    costs = {cost(one) for one in points}
    pairs = ((one, two) for one in costs for two in costs if two != one)
    beaten = {one for one, two in pairs if all(b <= a for a, b in zip(one, two, strict=True))}
    front = costs - beaten
    return [replace(one, front=cost(one) in front) for one in points]

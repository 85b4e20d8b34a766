"""What recorded decisions come to for every value of one or two keys of the policy, and how far labels agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product, repeat
from operator import add
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from foregate.gates.replay.assumption import find_domain
from foregate.gates.replay.sweep_turn import find_numeric_key
from foregate.policy.source.load import default_policy, restore_policy
from foregate.policy.source.strict_yaml import Path
from foregate.schemas.errors import UsageError
from foregate.schemas.protocols import Readable
from foregate.schemas.review import Label
from foregate.telemetry.queries.reviews import Reviews
from foregate.tuning.pieces import Progress, Workers, work_on_pieces, work_on_sessions
from foregate.tuning.reach_index import ReachIndex
from foregate.tuning.turn_figures import (
    PieceCounter,
    PieceSweeper,
    Place,
    RecordedCounts,
    What,
    list_axes,
    list_figures,
    plan_pieces,
    read_turn_end,
    sum_up_places,
)

CallKey = tuple[str, int, str]
"""A session, the event that judged a turn, and a call."""
CallChanges = Mapping[CallKey, Counter[tuple[Place, What]]]


class LabelledCall(NamedTuple):
    """A label on a ruling, and what its call came to: how many gates held it, and asked a person about it."""

    key: CallKey
    label: Label
    held: int
    asked: int


class Labelled(NamedTuple):
    """The labels on calls that count, and how many are about decisions that were changed since, or are gone."""

    calls: tuple[LabelledCall, ...]
    changed: int


def find_labelled(log: Readable, reviews: Reviews, sessions: Collection[str]) -> Labelled:
    """Return the labels on calls of sessions that stand and in which reviewers agree."""
    wanted, found, changed = set(sessions), list[LabelledCall](), 0
    for given in reviews.list_standing():
        said, ruled = {one.body.label for one in given}, given[0].body.ruled
        if len(said) > 1 or not ruled.call or ruled.session not in wanted:
            continue
        end = read_turn_end(log, ruled.session, ruled.seq, ruled.event)
        if end is None:
            changed += 1
            continue
        counts = Counter(one.what for one in list_figures(end) if one.call == ruled.call)
        key = (ruled.session, ruled.seq, ruled.call)
        found.append(LabelledCall(key, said.pop(), counts["held"], counts["asked"]))
    return Labelled(tuple(found), changed)


def list_agreement(
    labelled: Iterable[LabelledCall], changes: CallChanges, lowest: Place
) -> Iterator[tuple[Place, int]]:
    """Yield the places at which the number of labels that are met changes, and by how much; the first is `lowest`."""
    for one in labelled:
        mine = changes.get(one.key, Counter())
        axes = list_axes((place for place, _ in mine), lowest)
        held, asked = (
            sum_up_places({at: by for (at, told), by in mine.items() if told == what}, axes) for what in _TOLD
        )
        then = rank(one.held, one.asked)
        met = {
            place: is_met(one.label, then, rank(one.held + held[place], one.asked + asked[place]))
            for place in product(*axes)
        }
        yield from _find_differences(met, axes)


_TOLD: tuple[What, What] = ("held", "asked")


def rank(held: int, asked: int) -> int:
    """Return how strictly a call is treated: 0 where it just runs, 1 where a person is asked, 2 where it is stopped."""
    return 2 if held > 0 else int(asked > 0)


def is_met(label: Label, then: int, now: int) -> bool:
    """Whether a call comes out as its label wants it: as it did, less strictly, more so; one that is unclear never."""
    match label:
        case "right":
            return now == then
        case "too strict":
            return now < max(then, 1)
        case "too lax":
            return now > min(then, 1)
        case "unclear":
            return False


def _find_differences(values: Mapping[Place, int], axes: Sequence[Sequence[int]]) -> Iterator[tuple[Place, int]]:
    """Yield what summing up along each axis makes the values of."""
    for indexes in product(*(range(len(axis)) for axis in axes)):
        by = 0
        for back in product(*((0, 1) for _ in axes)):
            at = [index - step for index, step in zip(indexes, back, strict=True)]
            if min(at) >= 0:
                place = tuple(axis[index] for axis, index in zip(axes, at, strict=True))
                by += values[place] * (-1) ** sum(back)
        if by:
            yield tuple(axis[index] for axis, index in zip(axes, indexes, strict=True)), by


class Figure(NamedTuple):
    """What is counted over all turns: of a gate, or of none how many labels are met."""

    gate: str
    what: Literal[What, "agreed"]


_AGREED = Figure("", "agreed")
Changes = Counter[tuple[Place, Figure]]
"""How much each figure changes at a place."""


class GateCounts(Struct, frozen=True):
    """What a gate comes to: calls it holds or denies, calls it asks a person about, prompts, requests for advice."""

    gate: str
    held: int = 0
    asked: int = 0
    prompts: int = 0
    requests: int = 0


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
    gates: tuple[GateCounts, ...] = ()


@dataclass(frozen=True)
class SweepResult:
    """A sweep: the points in order, how many turns, calls and labels they rest on, and the values the turns had.

    `changed` counts labels of decisions that are others now, `others` turns that another version of Foregate judged,
    and `judged` the turns that were judged for the sweep.
    """

    keys: tuple[str, ...]
    points: Sequence[SweepPoint]
    turns: int
    calls: int
    labels: int
    now: Mapping[tuple[int, ...], int]
    changed: int = 0
    others: int = 0
    judged: int = field(default=0, compare=False)


@dataclass
class SweepSums:
    """What is summed up for a sweep: changes from what is recorded, and apart those of calls that are labelled."""

    labelled: Labelled
    changes: Changes = field(default_factory=Counter)
    by_call: dict[CallKey, Counter[tuple[Place, What]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_call = {one.key: Counter() for one in self.labelled.calls}


def find_paths(keys: Sequence[str]) -> list[Path]:
    """Return the paths of one key or two; raise UsageError, in a sentence, for what cannot be swept."""
    if len(set(keys)) < len(keys):
        raise UsageError(f"`{keys[0]}` is named twice; name two keys, or one")
    return [find_numeric_key(key, default_policy())[0] for key in keys]


def sweep_sessions(
    log: Readable,
    sessions: Sequence[str],
    keys: Sequence[str],
    reviews: Reviews,
    index: ReachIndex | None = None,
    workers: Workers = 0,
    progress: Progress | None = None,
) -> SweepResult:
    """Return what the turns of sessions come to for every value of the keys, each under its own policy otherwise.

    With an `index` that has caught up, only the turns are judged that rest on a key. `progress` is told how many pieces
    of the sessions are judged, and of how many. Raises UsageError for a key that
    cannot be swept, and LogError for a log that cannot be read.
    """
    paths, sums = find_paths(keys), SweepSums(find_labelled(log, reviews, sessions))
    pieces = [piece for session in sessions for piece in plan_pieces(log, index, paths, session)]
    events = sum(piece.count_events() for piece in pieces)
    judged, work = 0, work_on_pieces(log, pieces, events, partial(PieceSweeper, keys=tuple(keys)), workers)
    for count, (piece, (turns, found)) in enumerate(work, start=1):
        judged += turns
        if progress is not None:
            progress(count, len(pieces))
        for seq, (call, gate, what), place, by in found:
            sums.changes[place, Figure(gate, what)] += by
            if (key := (piece.session, seq, call)) in sums.by_call:
                sums.by_call[key][place, what] += by
    recorded = RecordedCounts()
    for _, counts in work_on_sessions(log, sessions, PieceCounter, workers):
        recorded.add(counts)
    return conclude_sweep(keys, recorded, sums, judged)


def conclude_sweep(keys: Sequence[str], recorded: RecordedCounts, sums: SweepSums, judged: int) -> SweepResult:
    """Return the sweep that changes make of what is recorded."""
    paths = find_paths(keys)
    lowest = tuple(low for low, _ in map(find_domain, paths))
    totals, now, labels = Counter[str](), Counter[tuple[int, ...]](), sums.labelled
    changes = Changes(sums.changes)
    for (policy, gate, what), count in recorded.counts.items():
        if what == "turns":
            values = restore_policy(recorded.policies[policy])
            now[tuple(find_numeric_key(key, values)[1] for key in keys)] += count
        if what == "turns" or what == "calls" or what == "others":
            totals[what] += count
        else:
            changes[lowest, Figure(gate, what)] += count
    for place, by in list_agreement(sums.labelled.calls, sums.by_call, lowest):
        changes[place, _AGREED] += by
    points = list(_sum_up(changes, paths)) if totals["calls"] else []
    points = mark_front(points, has_labels=bool(labels.calls))
    return SweepResult(
        tuple(keys),
        points,
        totals["turns"],
        totals["calls"],
        len(labels.calls),
        now,
        labels.changed,
        totals["others"],
        judged,
    )


def _sum_up(changes: Changes, keys: Sequence[Path]) -> Iterator[SweepPoint]:
    """Yield the points between the places at which anything changes."""
    domains = [find_domain(key) for key in keys]
    axes = list_axes((place for (place, _), by in changes.items() if by), tuple(low for low, _ in domains))
    ends = [
        dict(zip(axis, [*(at - 1 for at in axis[1:]), high], strict=True))
        for axis, (_, high) in zip(axes, domains, strict=True)
    ]
    by_figure: dict[Figure, dict[Place, int]] = {}
    for (place, figure), by in changes.items():
        by_figure.setdefault(figure, {})[place] = by
    places = list(sum_up_places({}, axes))
    figures = {figure: list(sum_up_places(found, axes).values()) for figure, found in by_figure.items()}
    agreed = figures.pop(_AGREED, [0] * len(places))
    counts = [_count_gate(gate, figures, len(places)) for gate in sorted({figure.gate for figure in figures})]
    for index, place in enumerate(places):
        high = tuple(end[at] for end, at in zip(ends, place, strict=True))
        here = tuple(gate[index] for gate in counts)
        yield SweepPoint(
            place,
            high,
            sum(one.held for one in here),
            sum(one.prompts for one in here),
            sum(one.requests for one in here),
            agreed[index],
            gates=tuple(one for one in here if one.held or one.asked or one.prompts or one.requests),
        )


def _count_gate(gate: str, figures: Mapping[Figure, Sequence[int]], places: int) -> list[GateCounts]:
    """Return what a gate comes to, place by place."""

    def column(what: What) -> Sequence[int]:
        return figures.get(Figure(gate, what), [0] * places)

    requests = map(add, column("planner"), column("critic"))
    return list(map(GateCounts, repeat(gate), column("held"), column("asked"), column("person"), requests))


def mark_front(points: Sequence[SweepPoint], *, has_labels: bool) -> list[SweepPoint]:
    """Return the points, those marked that no other beats: with no more prompts and requests, and no less agreement.

    Without labels it is unknown what is right, so holding as much stands in its place.
    """

    def cost(one: SweepPoint) -> tuple[int, int, int]:
        return one.prompts, one.requests, -(one.agreed if has_labels else one.held)

    front: list[tuple[int, int, int]] = []
    # What beats it stands before it.
    for found in sorted({cost(one) for one in points}):
        if not any(all(b <= a for a, b in zip(found, better, strict=True)) for better in front):
            front.append(found)
    return [replace(one, front=cost(one) in front) for one in points]

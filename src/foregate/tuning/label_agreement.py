"""How far rulings come out as reviewers want them, wherever a value of the policy is put."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from foregate.schemas.protocols import Readable
from foregate.schemas.review import Label
from foregate.telemetry.queries.reviews import Reviews
from foregate.tuning.turn_figures import Place, What, list_axes, list_figures, read_turn_end, sum_up_places

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

"""Figures that change at places along one key or two: summed up from the least values on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

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

"""Counts as the parts of a bar, laid out for the page: whole numbers, the smallest still to be seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

WIDTH = 360
"""Units of a bar's width; the page stretches it."""
_LEAST = 8


class TallySegment(Struct, frozen=True):
    """A part of a bar: where it begins, how wide it is, and what it stands for."""

    x: int
    width: int
    kind: str


def lay_segments(counts: Mapping[str, int]) -> Iterator[TallySegment]:
    """Yield the parts of a bar that stand for counts, in their order; those of nothing are left out.

    >>> [(one.x, one.width, one.kind) for one in lay_segments({"allow": 3, "ask": 0, "hold": 1})]
    [(0, 270, 'allow'), (270, 90, 'hold')]
    """
    there = {kind: count for kind, count in counts.items() if count > 0}
    whole = sum(there.values())
    spare = WIDTH - _LEAST * len(there)
    x = seen = 0
    for number, (kind, count) in enumerate(there.items(), start=1):
        seen += count
        end = WIDTH if number == len(there) else _LEAST * number + spare * seen // whole
        yield TallySegment(x, end - x, kind)
        x = end


def lay_parts(counts: Mapping[str, int], most: int) -> Iterator[TallySegment]:
    """Yield parts one behind the other in a bar whose whole width stands for `most`; those of nothing are left out.

    >>> [(one.x, one.width, one.kind) for one in lay_parts({"ask": 10, "hold": 0, "deny": 20}, 120)]
    [(0, 30, 'ask'), (30, 60, 'deny')]
    """
    x = 0
    for kind, count in counts.items():
        if width := scale_width(count, most):
            yield TallySegment(x, width, kind)
            x += width


def scale_width(count: int, most: int, width: int = WIDTH) -> int:
    """Return how wide a bar is that stands for a count where the widest stands for `most`; one at least for any."""
    return max(2, width * count // most) if count > 0 and most > 0 else 0

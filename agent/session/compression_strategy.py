"""Which parts of a sequence stay within a limit: the ends before the middle, and what must stay before all."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def keep_ends(weights: Sequence[int], limit: int, must: Collection[int], first: int, last: int) -> list[int]:
    """Return the places of the parts to keep, in order.

    `must` stays whatever it weighs. Of the first `first` and the last `last` parts stays what fits into `limit`, the
    newest first; further ones fill up half of it, so that the next parts do not make another cut necessary at once.
    """
    kept = set(must)
    used = sum(weights[place] for place in kept)
    count = len(weights)
    for place in [*reversed(range(max(0, count - last), count)), *range(min(first, count))]:
        if place not in kept and used + weights[place] <= limit:
            kept.add(place)
            used += weights[place]
    for place in reversed(range(count)):
        if place in kept:
            continue
        if used + weights[place] > limit // 2:
            break
        kept.add(place)
        used += weights[place]
    return sorted(kept)


def to_ranges(places: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return ascending places as ranges, each from its first to behind its last."""
    found: list[tuple[int, int]] = []
    for place in places:
        if found and found[-1][1] == place:
            found[-1] = found[-1][0], place + 1
        else:
            found.append((place, place + 1))
    return tuple(found)

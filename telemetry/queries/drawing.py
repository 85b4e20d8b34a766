"""Choosing what to review: by chance from a stated population, by risk, or where people or policies disagree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from foregate.schemas.errors import UsageError
from foregate.schemas.identity import Identity
from foregate.schemas.review import Canary, QueueDrawn, RuledCall, Way
from foregate.telemetry.queries.reviews import Reviews, list_sample
from foregate.telemetry.queries.rulings import Filter, RulingRow

_MILLION = 1_000_000
_LOOSER, _STRICTER = -1, 1
_RANKS = {"allow": 0, "ask": 1, "hold": 2, "deny": 3}
_WANTED = {"right": 0, "too strict": _LOOSER, "too lax": _STRICTER}
"""Which way a label wants a ruling to go."""


class Draw(NamedTuple):
    """How a queue is to be drawn: `size` 0 for all, `seed` for a random one."""

    name: str
    way: Way
    size: int = 0
    seed: int = 0
    blind: bool = False
    canaries: tuple[Canary, ...] = ()


def draw_queue(
    draw: Draw, rows: Sequence[RulingRow], wanted: Filter, sessions: int, by: Identity, reviews: Reviews
) -> QueueDrawn:
    """Return the queue that a draw gives from the population `rows` of so many sessions.

    The same draw from the same population gives the same queue. Raises UsageError where there is nothing to draw from.
    """
    known = {canary.ruled.address for canary in draw.canaries}
    rows = [row for row in rows if row.ruled.address not in known]
    if not rows:
        raise UsageError("no decision fits, so there is nothing to review; take a filter away")
    size = min(draw.size or len(rows), len(rows))
    match draw.way:
        case "random":
            chosen = sorted(rows, key=lambda row: shuffle_ruling(draw.seed, row.ruled))[:size]
        case "risk":
            chosen = sorted(rows, key=lambda row: (-row.risk, -_RANKS[row.standing], row.time))[:size]
        case "disagreement":
            chosen = list(rows)[:size]
    addresses = sorted(row.ruled.address for row in rows)
    return QueueDrawn(
        name=draw.name,
        way=draw.way,
        filter=wanted.to_json(),
        sessions=sessions,
        population=len(rows),
        population_hash=hashlib.sha256("".join(f"{one}\n" for one in addresses).encode()).hexdigest(),
        items=tuple(row.ruled for row in chosen),
        by=by,
        probability=size * _MILLION // len(rows) if draw.way == "random" else 0,
        seed=draw.seed,
        blind=draw.blind,
        canaries=draw.canaries,
    )


def is_same_draw(queue: QueueDrawn, draw: Draw, wanted: Filter) -> bool:
    """Whether a queue was drawn like this, from whatever there was then."""
    size = not draw.size or len(queue.items) == min(draw.size, queue.population)
    asked = (queue.way, queue.seed, queue.blind, dict(queue.filter))
    return size and asked == (draw.way, draw.seed, draw.blind, wanted.to_json())


def order_queue(queue: QueueDrawn) -> list[RuledCall]:
    """Return what is in a queue in the order it is shown: nothing tells a canary from the others."""
    # Else a session would not be looked at as a whole.
    if queue.way == "random" and "change" not in queue.filter:
        return sorted(list_sample(queue), key=lambda ruled: shuffle_ruling(queue.seed, ruled))
    shown = list(queue.items)
    for canary in queue.canaries:
        shown.insert(int(shuffle_ruling(queue.seed, canary.ruled)[:12], 16) % (len(shown) + 1), canary.ruled)
    return shown


def find_disagreements(
    rows: Iterable[RulingRow], reviews: Reviews, otherwise: Mapping[tuple[str, int, str], str] | None
) -> list[RulingRow]:
    """Return the rulings whose labels differ, or do not fit how they come out `otherwise`.

    That is how a call, by session, event and id, stands under another policy, where it comes out differently there;
    None for no other policy.
    """
    return [row for row in rows if _is_disputed(row, reviews, otherwise)]


def _is_disputed(row: RulingRow, reviews: Reviews, otherwise: Mapping[tuple[str, int, str], str] | None) -> bool:
    labels = {given.body.label for given in reviews.list_labels(row.ruled)}
    if len(labels) > 1:
        return True
    ruled = row.ruled
    wanted = {_WANTED[label] for label in labels if label in _WANTED}
    if otherwise is None or not wanted:
        return False
    after = otherwise.get((ruled.session, ruled.seq, ruled.call), row.standing)
    change = _RANKS[after] - _RANKS[row.standing]
    return wanted != {(change > 0) - (change < 0)}


def shuffle_ruling(seed: int, ruled: RuledCall) -> str:
    """Return where a ruling stands in the order of a seed: the same, whatever else is in the population."""
    return hashlib.sha256(f"{seed}\0{ruled.address}".encode()).hexdigest()

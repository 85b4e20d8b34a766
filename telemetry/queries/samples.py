"""Samples of decisions to review: drawn by chance, risk or dispute, and what their labels show of the whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from math import comb
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
WHOLE = 1000
"""Confidences and shares are whole thousandths, so that no bound hangs on how a machine rounds."""


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


class Proof(NamedTuple):
    """What `labelled` of a `population`, drawn by chance, show where `wrong` of them are wrong.

    At most `bound` of the population are, with `confidence` thousandths; where some are wrong, that does not hold for
    who stops when they like the bound. `allowed` is what was asked for, and `shown` whether the labels show it, however
    often somebody looks. `more` is how many further labels would, if all of those are right, None where none can.
    """

    population: int
    labelled: int
    wrong: int
    bound: int
    allowed: int
    confidence: int
    shown: bool
    more: int | None


def prove(population: int, outcomes: Sequence[bool], allowed: int, confidence: int) -> Proof:
    """Return what labels show, in the order in which their cases were drawn; True is a right one.

    With nothing in the population it is shown that nothing is wrong. Raises ValueError for more labels than cases, or a
    confidence that is none.
    """
    labelled, wrong = len(outcomes), outcomes.count(False)
    bound = find_upper_bound(population, labelled, wrong, confidence)
    if allowed >= population:
        return Proof(population, labelled, wrong, bound, allowed, confidence, True, 0)
    if wrong > allowed:
        return Proof(population, labelled, wrong, max(bound, allowed + 1), allowed, confidence, False, None)
    milestones = list_milestones(population, allowed, wrong, confidence)
    shown = any(
        milestone <= labelled and outcomes[:milestone].count(False) <= most for most, milestone in enumerate(milestones)
    )
    if wrong:
        # A further look was taken because of what the labels said: the bound may not claim more than the milestones do.
        bound = max(bound, allowed if shown else allowed + 1)
    more = 0 if shown else milestones[-1] - labelled
    return Proof(population, labelled, wrong, bound, allowed, confidence, shown, more)


def count_allowed(population: int, share: int) -> int:
    """Return how many of a population are at most a share of it, in thousandths."""
    return population * share // WHOLE


def split_in_halves(sessions: Iterable[str], seed: int) -> tuple[list[str], list[str]]:
    """Return sessions in two halves by chance: those to choose by, and those to test on.

    A coin is tossed for each session by the seed, so that it stays in its half whatever other sessions there are.
    """
    halves: tuple[list[str], list[str]] = ([], [])
    for session in sessions:
        halves[sha256(f"half\0{seed}\0{session}".encode()).digest()[0] & 1].append(session)
    return halves


def find_upper_bound(population: int, drawn: int, wrong: int, confidence: int) -> int:
    """Return the most that may be wrong of a population when `drawn` were drawn by chance, and `wrong` were wrong.

    With `confidence` thousandths no more are, if it was not the labels that said how many to draw. Raises ValueError
    for numbers that fit no sample.

    >>> find_upper_bound(312, 20, 0, 900)
    32
    """
    _check_sample(population, drawn, wrong, confidence)
    ways = comb(population, drawn) * (WHOLE - confidence)

    def is_ruled_out(bad: int) -> bool:
        return _count_ways(population, bad, drawn, wrong) * WHOLE <= ways

    return find_first(is_ruled_out, wrong + 1, population - drawn + wrong + 1) - 1


def list_milestones(population: int, allowed: int, wrong: int, confidence: int) -> list[int]:
    """Return the milestones for no wrong label, for one, and so on up to `wrong`, as numbers of labels.

    With at most `c` wrong among the first `milestones[c]` of a random order, at most `allowed` of the population are
    wrong, with `confidence` thousandths, however often somebody looks. `wrong` is at most `allowed`. Raises ValueError
    for numbers that make no sense.

    >>> list_milestones(312, 6, 1, 900)
    [87, 220]
    """
    _check_sample(population, allowed, wrong, confidence)
    bad = allowed + 1
    if bad > population:
        return [0] * (wrong + 1)
    room = comb(population, bad) * (WHOLE - confidence)
    spent, at = 0, 0
    # The ways in which the first labels come out that are at no milestone yet, by how many are wrong.
    reached = {0: 1}
    milestones: list[int] = []
    for count in range(wrong + 1):
        ways, left = reached.get(count, 0), bad - count

        def is_enough(labels: int, ways: int = ways, left: int = left, spent: int = spent) -> bool:
            return (spent + ways * comb(population - labels, left)) * WHOLE <= room

        here = find_first(is_enough, at, population)
        spent += ways * comb(population - here, left)
        # After `here - at` further labels, with more than `count` wrong ones.
        reached = {
            now: sum(ways * comb(here - at, now - before) for before, ways in reached.items() if before <= now)
            for now in range(count + 1, wrong + 1)
        }
        milestones.append(here)
        at = here
    return milestones


def _count_ways(population: int, bad: int, drawn: int, most: int) -> int:
    """Return how many samples of `drawn` hold at most `most` of the `bad` ones."""
    least = max(0, drawn - (population - bad))
    return sum(comb(bad, some) * comb(population - bad, drawn - some) for some in range(least, min(most, bad) + 1))


def find_first(holds: Callable[[int], bool], least: int, most: int) -> int:
    """Return the smallest number from `least` on from which something holds; `most` where none before it does."""
    while least < most:
        middle = (least + most) // 2
        if holds(middle):
            most = middle
        else:
            least = middle + 1
    return least


def _check_sample(population: int, drawn: int, wrong: int, confidence: int) -> None:
    if not 0 <= wrong <= drawn <= population:
        raise ValueError(f"{wrong} wrong of {drawn} drawn of {population} is no sample")
    if not 0 < confidence < WHOLE:
        raise ValueError(f"a confidence is above 0 and below {WHOLE} thousandths, not {confidence}")

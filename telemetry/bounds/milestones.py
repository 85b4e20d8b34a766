"""How many labels show what was asked for: fixed before the first one, so that nobody can look too often.

Who looks after every label and stops at the first good moment has tried many times, and each try may be luck. So the
moments are fixed by what was asked for alone: the first comes where labels that are all right suffice, the next where
one wrong one is allowed, and so on. Together they are as likely to mislead as one single look.
"""

from __future__ import annotations

from math import comb

from foregate.telemetry.bounds.hypergeometric import WHOLE, check_sample, find_first


def list_milestones(population: int, allowed: int, wrong: int, confidence: int) -> list[int]:
    """Return the milestones for no wrong label, for one, and so on up to `wrong`, as numbers of labels.

    With at most `c` wrong among the first `milestones[c]` of a random order, at most `allowed` of the population are
    wrong, with `confidence` thousandths, however often somebody looks. `wrong` is at most `allowed`. Raises ValueError
    for numbers that make no sense.

    >>> list_milestones(312, 6, 1, 900)
    [87, 220]
    """
    check_sample(population, allowed, wrong, confidence)
    bad = allowed + 1
    if bad > population:
        return [0] * (wrong + 1)
    room = comb(population, bad) * (WHOLE - confidence)
    spent, at = 0, 0
    reached = {0: 1}  # of the ways in which the first labels come out, those at no milestone yet, by how many are wrong
    milestones: list[int] = []
    for count in range(wrong + 1):
        ways, left = reached.get(count, 0), bad - count

        def is_enough(labels: int, ways: int = ways, left: int = left, spent: int = spent) -> bool:
            return (spent + ways * comb(population - labels, left)) * WHOLE <= room

        here = find_first(is_enough, at, population)
        spent += ways * comb(population - here, left)
        reached = _go_on(reached, here - at, count, wrong)
        milestones.append(here)
        at = here
    return milestones


def _go_on(reached: dict[int, int], labels: int, count: int, most: int) -> dict[int, int]:
    """Return the ways after so many further labels that hold more than `count` wrong ones, and `most` at most."""
    return {
        now: sum(ways * comb(labels, now - before) for before, ways in reached.items() if before <= now)
        for now in range(count + 1, most + 1)
    }

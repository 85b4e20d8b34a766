"""Drawing by chance without putting back: how many may be wrong of all, given how many are wrong of some."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

WHOLE = 1000
"""Confidences and shares are whole thousandths, so that no bound hangs on how a machine rounds."""


def find_upper_bound(population: int, drawn: int, wrong: int, confidence: int) -> int:
    """Return the most that may be wrong of a population of which `drawn` were drawn by chance, and `wrong` were wrong.

    With `confidence` thousandths no more are, if it was not the labels that said how many to draw. Raises ValueError
    for numbers that fit no sample.

    >>> find_upper_bound(312, 20, 0, 900)
    32
    """
    check_sample(population, drawn, wrong, confidence)
    ways = comb(population, drawn) * (WHOLE - confidence)

    def is_ruled_out(bad: int) -> bool:
        return count_ways(population, bad, drawn, wrong) * WHOLE <= ways

    return find_first(is_ruled_out, wrong + 1, population - drawn + wrong + 1) - 1


def count_ways(population: int, bad: int, drawn: int, most: int) -> int:
    """Return how many samples of `drawn` hold at most `most` of the `bad` ones."""
    least = max(0, drawn - (population - bad))
    return sum(comb(bad, some) * comb(population - bad, drawn - some) for some in range(least, min(most, bad) + 1))


def find_first(holds: Callable[[int], bool], least: int, most: int) -> int:
    """Return the smallest number from `least` on for which something holds that goes on to hold; `most` where none
    before it does."""
    while least < most:
        middle = (least + most) // 2
        if holds(middle):
            most = middle
        else:
            least = middle + 1
    return least


def check_sample(population: int, drawn: int, wrong: int, confidence: int) -> None:
    """Raise ValueError where no sample can have these numbers."""
    if not 0 <= wrong <= drawn <= population:
        raise ValueError(f"{wrong} wrong of {drawn} drawn of {population} is no sample")
    if not 0 < confidence < WHOLE:
        raise ValueError(f"a confidence is above 0 and below {WHOLE} thousandths, not {confidence}")

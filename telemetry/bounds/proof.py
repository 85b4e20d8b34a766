"""What labels show of a population, against what was asked for: the bound they reach, and how many more it takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from foregate.telemetry.bounds.hypergeometric import WHOLE, find_upper_bound
from foregate.telemetry.bounds.milestones import list_milestones


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


def walk_path(proofs: Iterable[Proof]) -> Iterator[Proof]:
    """Yield the proofs of a path of settings, from strict to loose, until one fails, which is the last.

    None behind it is looked at: so all that were shown before it hold together with the confidence of each one.
    """
    for proof in proofs:
        yield proof
        if not proof.shown:
            return


def split_in_halves(sessions: Iterable[str], seed: int) -> tuple[list[str], list[str]]:
    """Return sessions in two halves by chance: those to choose by, and those to test on.

    A coin is tossed for each session by the seed, so that it stays in its half whatever other sessions there are.
    """
    halves: tuple[list[str], list[str]] = ([], [])
    for session in sessions:
        halves[sha256(f"half\0{seed}\0{session}".encode()).digest()[0] & 1].append(session)
    return halves

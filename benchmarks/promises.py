"""Whether each promise about labels holds: broken in at most as many trials as it says, and two in a hundred more.

One trial draws a population whose truth is known, and sees whether what was claimed is false. Populations are chosen
where a promise is most easily broken: one wrong more than may be.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator

from foregate.schemas.review import RuledCall
from foregate.telemetry.queries.samples import Proof, count_allowed, find_upper_bound, prove, split_in_halves
from foregate.tuning.proposals import build_frame

CONFIDENCE, SHARE = 900, 50


def make_population(chance: random.Random, size: int, wrong: int) -> list[bool]:
    """Return so many cases in a random order, True for the right ones."""
    cases = [True] * (size - wrong) + [False] * wrong
    chance.shuffle(cases)
    return cases


def is_bound_broken(chance: random.Random) -> bool:
    """A bound on the calls that a change lets go, from as many as were to be drawn of them, in the order of a seed."""
    size, wrong = 150, 27
    calls = [RuledCall("s", number, "evidence") for number in range(size)]
    frame = build_frame(calls, "calls", chance.randrange(10**6))
    drawn = [ruled.seq >= wrong for ruled in frame.calls[:40]]
    return find_upper_bound(size, len(drawn), drawn.count(False), CONFIDENCE) < wrong


def is_last_bound_broken(chance: random.Random) -> bool:
    """Somebody labels as many as they are told, until it is shown or none can show it, and believes the last bound."""
    size, share = 312, 20
    wrong = chance.choice((7, 60))
    order = make_population(chance, size, wrong)
    proof = prove(size, [], count_allowed(size, share), CONFIDENCE)
    while proof.more:
        proof = prove(size, order[: proof.labelled + proof.more], proof.allowed, CONFIDENCE)
    return proof.bound < wrong


def is_look_after_look_broken(chance: random.Random) -> bool:
    """Somebody looks after every label, does as they are told how many more it takes, and stops once it is shown."""
    size = 200
    allowed = count_allowed(size, SHARE)
    order = make_population(chance, size, allowed + 1)
    labelled = 10
    while True:
        proof = prove(size, order[:labelled], allowed, CONFIDENCE)
        if proof.shown:
            return True
        if not proof.more:
            return False
        labelled += chance.choice((1, proof.more))


def walk_path(proofs: Iterable[Proof]) -> Iterator[Proof]:
    """Yield the proofs of settings, from strict to loose, up to the first that fails, as an assessor does."""
    for proof in proofs:
        yield proof
        if not proof.shown:
            return


def is_path_broken(chance: random.Random) -> bool:
    """One dial is walked from strict to loose over settings that let go ever more, and ever more of it wrongly."""
    proofs, is_false = [], []
    for size, wrong in ((60, 1), (120, 7), (180, 10), (240, 13)):
        allowed = count_allowed(size, SHARE)
        order = make_population(chance, size, wrong)
        proofs.append(prove(size, order[: chance.randrange(40, size)], allowed, CONFIDENCE))
        is_false.append(wrong > allowed)
    shown = [proof.shown for proof in walk_path(proofs)]
    return any(claimed and false for claimed, false in zip(shown, is_false, strict=False))


def is_free_search_broken(chance: random.Random) -> bool:
    """Many settings of several keys are ordered on one half of the sessions and tested on the other.

    Each setting is wrong in sessions of its own; the ones that look best on the first half come first.
    """
    sessions = [f"s{number}" for number in range(160)]
    choosing, testing = split_in_halves(sessions, chance.randrange(1000))
    allowed = count_allowed(len(testing), SHARE)
    candidates = []
    for _ in range(12):
        wrong = set(chance.sample(testing, allowed + 1)) | set(chance.sample(choosing, allowed + 1))
        candidates.append((sum(session in wrong for session in choosing[:30]), wrong))
    proofs = []
    for _, wrong in sorted(candidates, key=lambda pair: pair[0]):
        order = [session not in wrong for session in testing]
        chance.shuffle(order)
        proofs.append(prove(len(testing), order[:50], allowed, CONFIDENCE))
    return any(proof.shown for proof in walk_path(proofs))


PROMISES: tuple[Callable[[random.Random], bool], ...] = (
    is_bound_broken,
    is_last_bound_broken,
    is_look_after_look_broken,
    is_path_broken,
    is_free_search_broken,
)
TRIALS, CHANCE = 2000, 20
"""Trials of each promise, and the thousandths of them that chance may add."""
BOUND = TRIALS * (1000 - CONFIDENCE + CHANCE) // 1000
"""Trials that may break a promise."""


def main() -> int:
    """Print how often each promise was broken; return 1 where one was too often."""
    from figures import Report

    report = Report("promises", "telemetry/queries/samples.py", "src/foregate/tuning/proposals.py")
    for is_broken in PROMISES:
        name = is_broken.__name__.removeprefix("is_").removesuffix("_broken").replace("_", " ")
        broken = count_broken(is_broken, random.Random(2)) * 100 / TRIALS
        note = " ".join((is_broken.__doc__ or "").split())
        report.add(f"{name} broken", broken, "%", most=BOUND * 100 / TRIALS, note=note)
    return report.end()


def count_broken(is_broken: Callable[[random.Random], bool], chance: random.Random) -> int:
    """Return in how many trials a promise is broken."""
    return sum(is_broken(chance) for _ in range(TRIALS))


if __name__ == "__main__":
    sys.exit(main())

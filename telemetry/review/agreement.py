"""How far reviewers agree who did not see each other's labels: Cohen's kappa, where there are enough of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from foregate.schemas.review import LABELS
from foregate.telemetry.review.reviews import Reviews

ENOUGH = 100
"""Double labels below which nothing is claimed, where nobody says another number."""


class Agreement(Struct, frozen=True):
    """How often two reviewers said the same of a ruling before either saw what the other said.

    `kappa` is Cohen's in thousandths: how much more they agree than by chance; None where there are fewer than `enough`
    `double` labels, or where everybody always said the same. `seen` counts second labels given in sight of the first.
    """

    double: int
    same: int
    kappa: int | None
    seen: int
    enough: int = ENOUGH

    @property
    def sentence(self) -> str:
        """The agreement in words."""
        beside = f"; {self.seen} more were given in sight of the first and do not count" if self.seen else ""
        if self.double < self.enough:
            few = f"{self.double} blind double labels, {self.same} of them alike"
            return f"{few}: too few, below {self.enough} nothing follows{beside}"
        if self.kappa is None:
            return f"all {self.double} blind double labels are the same one, so kappa says nothing{beside}"
        told = f"kappa {self.kappa / 1000:.2f} from {self.double} blind double labels, {self.same} of them alike"
        return f"{told}{beside}"


def measure_agreement(reviews: Reviews, enough: int = ENOUGH) -> Agreement:
    """Return how the first two reviewers of each ruling agree, by what they said before they saw each other's labels.

    Who changes a label in sight of the other's still counts with what they said first: else those who disagreed would
    drop out.
    """
    pairs = [(found[0].body.label, found[1].body.label) for found in reviews.list_independent() if len(found) > 1]
    several = sum(len(labels) > 1 for labels in reviews.list_standing())
    same = sum(first == second for first, second in pairs)
    kappa = compute_kappa(pairs) if len(pairs) >= enough else None
    return Agreement(len(pairs), same, kappa, several - len(pairs), enough)


def compute_kappa(pairs: Sequence[tuple[str, str]]) -> int | None:
    """Return Cohen's kappa of pairs of labels in thousandths, None where chance alone makes all of them alike.

    >>> compute_kappa([("right", "right")] * 20 + [("right", "unclear")] * 5 + [("unclear", "right")] * 10 + [
    ...     ("unclear", "unclear")] * 15)
    400
    """
    count, same = len(pairs), sum(first == second for first, second in pairs)
    firsts, seconds = (Counter(pair[place] for pair in pairs) for place in (0, 1))
    chance = sum(firsts[label] * seconds[label] for label in LABELS)  # of count * count
    if not count or chance == count * count:
        return None
    return round(1000 * (same * count - chance) / (count * count - chance))

"""How far reviewers agree who did not see each other's labels: Cohen's kappa, where there are enough of them."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from foregate.schemas.review import LABELS
from foregate.telemetry.review.reviews import Reviews

ENOUGH = 20
"""Double labels below which chance alone could be anything, so that nothing is claimed."""


class Agreement(Struct, frozen=True):
    """How often two reviewers said the same of a ruling, of which the second had not seen the first's label.

    `kappa` is Cohen's in thousandths: how much more they agree than by chance; None where there are fewer than ENOUGH
    `double` labels, or where everybody always said the same. `seen` counts second labels given in sight of the first.
    """

    double: int
    same: int
    kappa: int | None
    seen: int

    @property
    def sentence(self) -> str:
        """The agreement in words."""
        beside = f"; {self.seen} more were given in sight of the first and do not count" if self.seen else ""
        if self.double < ENOUGH:
            return (
                f"{self.double} blind double labels, {self.same} of them alike: below {ENOUGH} nothing follows{beside}"
            )
        if self.kappa is None:
            return f"all {self.double} blind double labels are the same one, so kappa says nothing{beside}"
        told = f"kappa {self.kappa / 1000:.2f} from {self.double} blind double labels, {self.same} of them alike"
        return f"{told}{beside}"


def measure_agreement(reviews: Reviews) -> Agreement:
    """Return the agreement of the first label that stands of each ruling and the first blind one after it."""
    pairs: list[tuple[str, str]] = []
    seen = 0
    for labels in reviews.list_standing():
        ordered = sorted(labels, key=lambda given: given.seq)
        blind = next((given for given in ordered[1:] if given.body.blind), None)
        if blind is not None:
            pairs.append((ordered[0].body.label, blind.body.label))
        seen += len(ordered) > 1 and blind is None
    same = sum(first == second for first, second in pairs)
    return Agreement(len(pairs), same, compute_kappa(pairs) if len(pairs) >= ENOUGH else None, seen)


def compute_kappa(pairs: list[tuple[str, str]]) -> int | None:
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

"""Everything the review log says, folded: which label stands, how far queues have come, how reviewers agree."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from foregate.schemas.event import Event
from foregate.schemas.review import (
    LABELS,
    ChangeProposed,
    DecisionLabelled,
    LabelWithdrawn,
    QueueDrawn,
    RuledCall,
    SessionSignedOff,
    Way,
)
from foregate.schemas.strict_json import Json
from foregate.telemetry.queries.rows import ListRow

Key: TypeAlias = tuple[str, int, str, str]
"""What is labelled, whatever its hash: session, event, gate, call."""


def key_of(ruled: RuledCall) -> Key:
    """Return what a ruling is found by."""
    return ruled.session, ruled.seq, ruled.gate, ruled.call


class GivenLabel(NamedTuple):
    """A label with the event that gave it. Independent is one that was given in sight of no other reviewer's."""

    seq: int
    time: str
    body: DecisionLabelled
    is_independent: bool


class SignOff(NamedTuple):
    """A sign-off with the time it was given."""

    time: str
    body: SessionSignedOff

    def is_void(self, head: str) -> bool:
        """Whether the session has grown since, whose last event is `N:HASH` now."""
        return self.body.head != head


class Proposal(NamedTuple):
    """A path of settings with the time it was written down."""

    time: str
    body: ChangeProposed


class Reviews:
    """A fold over the events of the review log.

    Of labels the last of each reviewer stands; `given` are all, and `withdrawn` the events of those taken back.
    """

    def __init__(self) -> None:
        self.seq = 0
        self.given: list[GivenLabel] = []
        self.withdrawn: set[int] = set()
        self.queues: dict[str, QueueDrawn] = {}
        self.proposals: dict[str, Proposal] = {}
        self.sign_offs: dict[str, SignOff] = {}
        self._by_reviewer: dict[Key, dict[str, list[GivenLabel]]] = {}
        self._blind: dict[Key, None] = {}

    def skip(self, seq: int) -> None:
        """Go past an event that was erased."""
        self.seq = seq

    def apply(self, event: Event) -> None:
        """Take in one event."""
        self.seq = event.seq
        match event.body:
            case DecisionLabelled() as body:
                by_reviewer = self._by_reviewer.setdefault(key_of(body.ruled), {})
                is_first = by_reviewer.keys() <= {body.by.user}
                given = GivenLabel(event.seq, event.time, body, body.blind or is_first)
                self.given.append(given)
                by_reviewer.setdefault(body.by.user, []).append(given)
            case LabelWithdrawn() as body:
                self._withdraw(body)
            case QueueDrawn() as body:
                self.queues[body.name] = body
                if body.blind:
                    self._blind |= dict.fromkeys(key_of(ruled) for ruled in list_sample(body))
            case ChangeProposed() as body:
                self.proposals.setdefault(body.name, Proposal(event.time, body))
            case SessionSignedOff() as body:
                self.sign_offs[body.session] = SignOff(event.time, body)
            case _:
                pass

    def _withdraw(self, body: LabelWithdrawn) -> None:
        """Take a label out of those that stand; nobody can take back what another one has said."""
        place = bisect_left(self.given, body.label, key=lambda given: given.seq)
        if place == len(self.given) or self.given[place].seq != body.label:
            return
        given = self.given[place]
        if given.body.by.user == body.by.user and body.label not in self.withdrawn:
            self.withdrawn.add(body.label)
            self._by_reviewer[key_of(given.body.ruled)][body.by.user].remove(given)

    def list_labels(self, ruled: RuledCall) -> list[GivenLabel]:
        """Return the labels of a ruling that stand, by different reviewers, in the order they were given."""
        by_reviewer = self._by_reviewer.get(key_of(ruled), {})
        return sorted(labels[-1] for labels in by_reviewer.values() if labels)

    def find_label(self, ruled: RuledCall, reviewer: str) -> GivenLabel | None:
        """Return the label of a reviewer that stands, None for none."""
        labels = self._by_reviewer.get(key_of(ruled), {}).get(reviewer)
        return labels[-1] if labels else None

    def find_last(self, rulings: Iterable[RuledCall], reviewer: str) -> GivenLabel | None:
        """Return the label that a reviewer gave last to one of some rulings, None for none."""
        found = (self.find_label(ruled, reviewer) for ruled in rulings)
        return max((given for given in found if given is not None), default=None, key=lambda given: given.seq)

    def list_standing(self) -> Iterator[list[GivenLabel]]:
        """Yield for each ruling that is labelled the labels that stand."""
        for by_reviewer in self._by_reviewer.values():
            if standing := sorted(labels[-1] for labels in by_reviewer.values() if labels):
                yield standing

    def list_independent(self) -> Iterator[list[GivenLabel]]:
        """Yield for each ruling that is labelled what each reviewer said last before they saw what others said."""
        for by_reviewer in self._by_reviewer.values():
            alone = [[given for given in labels if given.is_independent] for labels in by_reviewer.values()]
            if found := sorted(labels[-1] for labels in alone if labels):
                yield found

    def may_see_others(self, ruled: RuledCall, reviewer: str) -> bool:
        """Whether a reviewer may see what others said: of what is in a blind queue only once they have labelled it."""
        return key_of(ruled) not in self._blind or self.find_label(ruled, reviewer) is not None

    def list_visible(self, ruled: RuledCall, reviewer: str, *, blind: bool = False) -> list[GivenLabel]:
        """Return the labels of others that a reviewer may see."""
        if blind or not self.may_see_others(ruled, reviewer):
            return []
        return [given for given in self.list_labels(ruled) if given.body.by.user != reviewer]


def list_sample(queue: QueueDrawn) -> list[RuledCall]:
    """Return everything that is in a queue, its canaries too."""
    return [*queue.items, *(canary.ruled for canary in queue.canaries)]


class CanaryCount(NamedTuple):
    """How many known answers a reviewer has met, and how many of them they found."""

    reviewer: str
    met: int
    found: int


def count_canaries(reviews: Reviews, queues: Iterable[QueueDrawn]) -> list[CanaryCount]:
    """Return for each reviewer how they did at the canaries of some queues."""
    met: dict[str, int] = {}
    found: dict[str, int] = {}
    # A canary of several queues is one known answer.
    for canary in {(key_of(one.ruled), one.label): one for queue in queues for one in queue.canaries}.values():
        for given in reviews.list_labels(canary.ruled):
            who = given.body.by.user
            met[who] = met.get(who, 0) + 1
            found[who] = found.get(who, 0) + (given.body.label == canary.label)
    return [CanaryCount(who, count, found[who]) for who, count in sorted(met.items())]


def count_by_gate(reviews: Reviews, sessions: Collection[str] | None = None) -> dict[str, dict[str, int]]:
    """Return by gate how often each label stands, each reviewer's counted; of some sessions, or of all with None."""
    counts: dict[str, dict[str, int]] = {}
    for labels in reviews.list_standing():
        for given in labels:
            if sessions is not None and given.body.ruled.session not in sessions:
                continue
            of_gate = counts.setdefault(given.body.ruled.gate, {**dict.fromkeys(LABELS, 0)})
            of_gate[given.body.label] += 1
    return dict(sorted(counts.items()))


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
    # Of count * count.
    chance = sum(firsts[label] * seconds[label] for label in LABELS)
    if not count or chance == count * count:
        return None
    return round(1000 * (same * count - chance) / (count * count - chance))


class QueueProgress(ListRow, frozen=True):
    """A queue as it was drawn, see QueueDrawn, and how far it has come.

    Of the `size` decisions that were drawn `labelled` have a label of somebody. Of those that are `shown`, canaries
    too, `own` have one of the reviewer who asks.
    """

    queue: str
    way: Way
    filter: Mapping[str, Json]
    seed: int
    sessions: int
    population: int
    population_hash: str
    size: int
    probability: int
    blind: bool
    labelled: int
    shown: int
    own: int


_AS_DRAWN = ("way", "filter", "seed", "sessions", "population", "population_hash", "probability", "blind")


def measure_progress(reviews: Reviews, reviewer: str) -> list[QueueProgress]:
    """Return how far each queue has come, in the order they were drawn."""
    return [_measure_queue(reviews, queue, reviewer) for queue in reviews.queues.values()]


def _measure_queue(reviews: Reviews, queue: QueueDrawn, reviewer: str) -> QueueProgress:
    shown = list_sample(queue)
    return QueueProgress(
        **{name: getattr(queue, name) for name in _AS_DRAWN},
        queue=queue.name,
        size=len(queue.items),
        labelled=sum(bool(reviews.list_labels(ruled)) for ruled in queue.items),
        shown=len(shown),
        own=sum(reviews.find_label(ruled, reviewer) is not None for ruled in shown),
    )

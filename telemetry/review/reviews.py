"""Everything the review log says, folded: which label stands, which queues there are, what is signed off."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from foregate.schemas.event import Event
from foregate.schemas.review import (
    LABELS,
    Canary,
    ChangeProposed,
    DecisionLabelled,
    LabelWithdrawn,
    QueueDrawn,
    RuledCall,
    SessionSignedOff,
)

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
    for canary in _list_canaries(queues):
        for given in reviews.list_labels(canary.ruled):
            who = given.body.by.user
            met[who] = met.get(who, 0) + 1
            found[who] = found.get(who, 0) + (given.body.label == canary.label)
    return [CanaryCount(who, count, found[who]) for who, count in sorted(met.items())]


def _list_canaries(queues: Iterable[QueueDrawn]) -> list[Canary]:
    known = {(key_of(canary.ruled), canary.label): canary for queue in queues for canary in queue.canaries}
    return list(known.values())


def count_by_gate(reviews: Reviews, sessions: Collection[str] | None = None) -> dict[str, dict[str, int]]:
    """Return by gate how often each label stands, each reviewer's counted; of some sessions, or of all with None."""
    counts: dict[str, dict[str, int]] = {}
    nothing: dict[str, int] = {**dict.fromkeys(LABELS, 0)}
    for labels in reviews.list_standing():
        for given in labels:
            if sessions is not None and given.body.ruled.session not in sessions:
                continue
            of_gate = counts.setdefault(given.body.ruled.gate, {**nothing})
            of_gate[given.body.label] += 1
    return dict(sorted(counts.items()))

"""Everything the review log says, folded: which label stands, which queues there are, what is signed off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from foregate.schemas.event import Event
from foregate.schemas.review import Canary, DecisionLabelled, Label, QueueDrawn, RuledCall, SessionSignedOff

Key: TypeAlias = tuple[str, int, str, str]
"""What is labelled, whatever its hash: session, event, gate, call."""


def key_of(ruled: RuledCall) -> Key:
    """Return what a ruling is found by."""
    return ruled.session, ruled.seq, ruled.gate, ruled.call


class GivenLabel(NamedTuple):
    """A label with the event that gave it."""

    seq: int
    time: str
    body: DecisionLabelled


class SignOff(NamedTuple):
    """A sign-off with the time it was given."""

    time: str
    body: SessionSignedOff

    def is_void(self, head: str) -> bool:
        """Whether the session has grown since, whose last event is `N:HASH` now."""
        return self.body.head != head


class Reviews:
    """A fold over the events of the review log. Of labels the last of each reviewer stands; `given` are all."""

    def __init__(self) -> None:
        self.seq = 0
        self.given: list[GivenLabel] = []
        self.queues: dict[str, QueueDrawn] = {}
        self.sign_offs: dict[str, SignOff] = {}
        self._standing: dict[Key, dict[str, GivenLabel]] = {}
        self._blind: dict[Key, None] = {}

    def apply(self, event: Event) -> None:
        """Take in one event."""
        self.seq = event.seq
        match event.body:
            case DecisionLabelled() as body:
                given = GivenLabel(event.seq, event.time, body)
                self.given.append(given)
                of_ruling = self._standing.setdefault(key_of(body.ruled), {})
                of_ruling.pop(body.by.user, None)  # what is changed comes last
                of_ruling[body.by.user] = given
            case QueueDrawn() as body:
                self.queues[body.name] = body
                if body.blind:
                    self._blind |= dict.fromkeys(key_of(ruled) for ruled in list_sample(body))
            case SessionSignedOff() as body:
                self.sign_offs[body.session] = SignOff(event.time, body)
            case _:
                pass

    def list_labels(self, ruled: RuledCall) -> list[GivenLabel]:
        """Return the labels of a ruling that stand, by different reviewers, in the order they were given."""
        return list(self._standing.get(key_of(ruled), {}).values())

    def find_label(self, ruled: RuledCall, reviewer: str) -> GivenLabel | None:
        """Return the label of a reviewer that stands, None for none."""
        return self._standing.get(key_of(ruled), {}).get(reviewer)

    def list_standing(self) -> Iterator[list[GivenLabel]]:
        """Yield for each ruling that is labelled the labels that stand."""
        yield from (list(labels.values()) for labels in self._standing.values())

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


def count_labels(labels: Iterable[GivenLabel]) -> dict[Label, int]:
    """Return how often each label stands."""
    counts: dict[Label, int] = {}
    for given in labels:
        counts[given.body.label] = counts.get(given.body.label, 0) + 1
    return counts

"""How far the queues have come; which decisions are hidden in them as known answers is not told."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.review import QueueDrawn, Way
from foregate.schemas.strict_json import Json
from foregate.telemetry.review.reviews import Reviews, list_sample


class QueueProgress(Struct, frozen=True):
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

    def to_json(self) -> dict[str, Json]:
        """Return the fields as JSON values."""
        told: dict[str, Json] = strict_json.dump(self)
        return told


def measure_progress(reviews: Reviews, reviewer: str) -> list[QueueProgress]:
    """Return how far each queue has come, in the order they were drawn."""
    return [_measure_queue(reviews, queue, reviewer) for queue in reviews.queues.values()]


def _measure_queue(reviews: Reviews, queue: QueueDrawn, reviewer: str) -> QueueProgress:
    shown = list_sample(queue)
    return QueueProgress(
        queue=queue.name,
        way=queue.way,
        filter=queue.filter,
        seed=queue.seed,
        sessions=queue.sessions,
        population=queue.population,
        population_hash=queue.population_hash,
        size=len(queue.items),
        probability=queue.probability,
        blind=queue.blind,
        labelled=sum(bool(reviews.list_labels(ruled)) for ruled in queue.items),
        shown=len(shown),
        own=sum(reviews.find_label(ruled, reviewer) is not None for ruled in shown),
    )

"""Drawing the labels that a change needs: from exactly what it lets go, by chance, and so that anybody can check it."""

from __future__ import annotations

from typing import NamedTuple

from foregate.schemas.errors import UsageError
from foregate.schemas.identity import Identity
from foregate.schemas.review import Canary, QueueDrawn, RuledCall
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.review.review_log import ReviewLog
from foregate.telemetry.review.reviews import Reviews
from foregate.tuning.assessing import AssessedStep, Assessor, find_proposal, list_queues
from foregate.tuning.reach_index import open_reach_index

_MILLION = 1_000_000


class ChangeDraw(NamedTuple):
    """What is drawn: for the change of this name so many, 0 for as many as it takes, with canaries among them."""

    name: str
    size: int = 0
    blind: bool = False
    canaries: tuple[Canary, ...] = ()


async def draw_for_change(log: SqliteLog, kept: ReviewLog, wanted: ChangeDraw, by: Identity, now: str) -> QueueDrawn:
    """Return the queue of what is to be labelled next for a change: drawn now, or before and not yet gone through.

    Without a `size` as many are drawn as would show it if all are right. Raises UsageError where no label is needed, or
    none can help.
    """
    reviews, name = await kept.read(), wanted.name
    proposal = find_proposal(reviews, name)
    with open_reach_index(log, ()) as index:
        assessor = await Assessor.open(log, proposal, index)
        step = list(assessor.walk(reviews))[-1]
    if step.proof.shown:
        raise UsageError(f"every setting of `{name}` is shown; `foregate policy suggest {name}` says what to apply")
    queues = list_queues(reviews, name)
    if queues and not _is_gone_through(queues[-1], reviews):
        if wanted.canaries:
            raise UsageError(f"`{queues[-1].name}` was drawn and is not gone through; go on with it without --canary")
        return queues[-1]
    queue = _draw(assessor, step, wanted, by, len(queues) + 1)
    await kept.add_queue(queue, now)
    return queue


def _is_gone_through(queue: QueueDrawn, reviews: Reviews) -> bool:
    return all(reviews.list_labels(ruled) for ruled in queue.items)


def _draw(assessor: Assessor, step: AssessedStep, wanted: ChangeDraw, by: Identity, number: int) -> QueueDrawn:
    body, proof, units = assessor.body, step.proof, step.frame.units
    if proof.more is None:
        raise UsageError(f"{proof.wrong} of {proof.labelled} labels speak against it, and no further ones can show it")
    taken = min(len(units), wanted.size or proof.labelled + proof.more)
    if taken <= proof.labelled:
        raise UsageError(f"{proof.labelled} are labelled already; draw more by --size, up to {len(units)}")
    known = {ruled.address for ruled in step.frame.calls}
    if among := [canary.ruled.address for canary in wanted.canaries if canary.ruled.address in known]:
        raise UsageError(f"`{among[0]}` is one of those the change lets go, so it is no canary; name another decision")
    items: list[RuledCall] = [ruled for unit in units[:taken] for ruled in unit]
    return QueueDrawn(
        name=f"{body.name}-{number}",
        way="random",
        filter={"change": body.name, "step": step.number, "unit": body.unit},
        sessions=body.sessions,
        population=len(step.frame.calls),
        population_hash=step.frame.hash,
        items=tuple(items),
        by=by,
        probability=taken * _MILLION // len(units),
        seed=body.seed,
        blind=wanted.blind,
        canaries=wanted.canaries,
    )

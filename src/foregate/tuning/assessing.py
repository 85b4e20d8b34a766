"""What labels show of a path of settings, walked from strict to loose, and the labels that are drawn for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, takewhile
from typing import NamedTuple

from msgspec import Struct

from foregate.assembly.home import find_sessions
from foregate.policy.source.strict_yaml import Data
from foregate.schemas.errors import TamperedLog, UsageError
from foregate.schemas.identity import Identity
from foregate.schemas.review import Canary, ChangeProposed, ProposedStep, QueueDrawn, RuledCall
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.review_log import ReviewLog
from foregate.telemetry.queries.reviews import Proposal, Reviews
from foregate.telemetry.queries.samples import Proof, count_allowed, prove
from foregate.tuning.pieces import Progress
from foregate.tuning.proposals import (
    LetGoFinder,
    ProposalFrame,
    build_frame,
    build_layer,
    describe_values,
    format_value,
    is_right,
    select_tested,
    subtract,
)
from foregate.tuning.reach_index import ReachIndex, open_reach_index

FILE = "the policy"
"""What sentences call the policy file that a path is laid over, as it was when the path was written down."""


class AssessedStep(Struct, frozen=True):
    """A setting with what it lets go, how many units of that are `drawn`, and what its labels show. `number` counts
    from 1."""

    number: int
    values: dict[str, Data]
    frame: ProposalFrame
    drawn: int
    proof: Proof


class Assessor(Struct):
    """Assesses a proposal against the log and what reviewers said."""

    proposal: Proposal
    finder: LetGoFinder

    @classmethod
    async def open(
        cls, log: SqliteLog, proposal: Proposal, index: ReachIndex | None = None, progress: Progress | None = None
    ) -> Assessor:
        """Return the assessor of a proposal over the sessions it can be about; the rest is as with a LetGoFinder."""
        sessions = proposal.body.among or await find_sessions(log, ())
        return cls(proposal, LetGoFinder(log, sessions, proposal.time, index, progress))

    @property
    def body(self) -> ChangeProposed:
        """What was written down."""
        return self.proposal.body

    def walk(self, reviews: Reviews) -> Iterator[AssessedStep]:
        """Yield the settings in their order, up to the first one that is not shown.

        Raises TamperedLog where what a setting lets go is something else now, or a label is about another decision.
        """
        for number, step in enumerate(self.body.steps, 1):
            found = self._assess(number, step, reviews)
            yield found
            if not found.proof.shown:
                return

    def _assess(self, number: int, step: ProposedStep, reviews: Reviews) -> AssessedStep:
        frame = self._find_frame(step)
        units = list_drawn(reviews, self.body.name, frame)
        outcomes = _list_outcomes(units, reviews)
        allowed = count_allowed(len(frame.units), self.body.allowed)
        proof = prove(len(frame.units), outcomes, allowed, self.body.confidence)
        return AssessedStep(number, dict(step.values), frame, len(units), proof)

    def _find_frame(self, step: ProposedStep) -> ProposalFrame:
        """Return what a setting lets go, which must be what it was when the path was written down."""
        body, before = self.body, self.finder.find(build_layer(self.body.base, FILE, {}))
        calls = subtract(self.finder.find(build_layer(body.base, FILE, step.values)), before)
        frame = build_frame(select_tested(calls, body.unit, body.seed), body.unit, body.seed)
        if (len(frame.units), frame.hash) != (step.population, step.population_hash):
            now = (
                f"the change lets go {len(frame.units)} recorded {body.unit} now, and {step.population} other ones or "
            )
            why = f"{now}more when it was written down, so nothing is claimed"
            raise TamperedLog(f"{why}; write it down anew by `foregate policy suggest`", 0)
        return frame


def find_proposal(reviews: Reviews, name: str) -> Proposal:
    """Return what was written down under a name; raise UsageError where nothing was."""
    if name not in reviews.proposals:
        known = ", ".join(f"`{one}`" for one in list(reviews.proposals)[-5:])
        hint = f"the newest are {known}" if known else "`foregate policy suggest KEY=VALUE,VALUE` writes one down"
        raise UsageError(f"there is no change `{name[:80]}`; {hint}")
    return reviews.proposals[name]


def list_queues(reviews: Reviews, name: str) -> list[QueueDrawn]:
    """Return the queues that were drawn for a change, in the order they were drawn."""
    return [queue for queue in reviews.queues.values() if queue.filter.get("change") == name]


def list_drawn(reviews: Reviews, name: str, frame: ProposalFrame) -> list[tuple[RuledCall, ...]]:
    """Return the units of a frame that were drawn for a change, for whichever of its settings: the first ones, for all
    settings have one order."""
    drawn = {ruled.address for queue in list_queues(reviews, name) for ruled in queue.items}
    return list(takewhile(lambda unit: all(ruled.address in drawn for ruled in unit), frame.units))


def _list_outcomes(units: Sequence[tuple[RuledCall, ...]], reviews: Reviews) -> list[bool]:
    """Return whether each drawn unit is right, up to the last one that is labelled.

    A skipped unit before it counts as wrong: it stays in the sample, and what it is is unknown.
    """
    for ruled in chain.from_iterable(units):
        _require_same(reviews, ruled)
    labelled = [all(reviews.list_labels(ruled) for ruled in unit) for unit in units]
    last = max((place for place, known in enumerate(labelled, 1) if known), default=0)
    return [all(is_right(reviews, ruled) for ruled in unit) for unit in units[:last]]


def _require_same(reviews: Reviews, ruled: RuledCall) -> None:
    """Raise TamperedLog where a label is about another ruling than the log holds."""
    for given in reviews.list_labels(ruled):
        if (given.body.ruled.event, given.body.ruled.digest) != (ruled.event, ruled.digest):
            why = f"label {given.seq} is about another `{ruled.address}` than the log holds, so nothing is claimed"
            raise TamperedLog(f"{why}; `foregate audit verify` tells what was changed", ruled.seq)


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
            raise UsageError(f"`{queues[-1].name}` was drawn and is not gone through; resume it without --canary")
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


def describe_step(body: ChangeProposed, step: AssessedStep) -> str:
    """Return what is shown of one setting, in a few sentences."""
    proof, calls, one = step.proof, len(step.frame.calls), step.proof.bound == 1
    if not proof.population:
        return "This change lets go no recorded call, so labels can say nothing of it."
    if body.unit == "calls":
        frame, of = f"This change lets go {_count(proof.population, 'recorded call')}.", "is" if one else "are"
        wrong = _count_wrong(proof.wrong, "was wrong", "were wrong")
    else:
        half = "recorded sessions of the half that it was not chosen by"
        frame = f"This change lets go calls in {proof.population} {half}, {_count(calls, 'call')} in all."
        wrong, of = _count_wrong(proof.wrong, "lets go a wrong one", "let go wrong ones"), "does" if one else "do"
    if not proof.labelled:
        said = "None of them was drawn at random and labelled: nothing is known"
        return f"{frame} {said}. {_describe_rest(body, step)}"
    drawn = f"{proof.labelled} drawn at random {'is' if proof.labelled == 1 else 'are'} labelled, {wrong}"
    bound = f"at most {proof.bound} of the {proof.population} {of}, with {format_share(body.confidence)} % confidence"
    return f"{frame} {drawn}: {bound}. {_describe_rest(body, step)}"


def _describe_rest(body: ChangeProposed, step: AssessedStep) -> str:
    proof, asked = step.proof, f"You asked for {format_share(body.allowed)} %"
    if proof.shown:
        return f"{asked}: it is shown."
    if proof.more is None:
        return f"{asked}: no further labels can show it."
    each = "label" if body.unit == "calls" else "labelled session"
    more = "more " if proof.labelled else ""
    return f"{asked}: {proof.more} {more}{each}{'' if proof.more == 1 else 's'} would show it if all are right."


def _count_wrong(wrong: int, one: str, several: str) -> str:
    return f"none {one}" if wrong == 0 else f"{wrong} {one if wrong == 1 else several}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def format_share(thousandths: int) -> str:
    """Return thousandths as a percentage.

    >>> format_share(20), format_share(995)
    ('2', '99.5')
    """
    whole, rest = divmod(thousandths, 10)
    return f"{whole}.{rest}" if rest else str(whole)


def describe_path(body: ChangeProposed) -> str:
    """Return a path in words: the settings in the order they are tried, with a key that all share named once."""
    if body.unit == "calls":
        (key,) = body.steps[0].values
        return f"{key}: {' → '.join(format_value(step.values[key]) for step in body.steps)}"
    return " → ".join(describe_values(step.values) for step in body.steps)

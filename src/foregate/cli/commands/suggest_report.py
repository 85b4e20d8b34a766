"""What is known of a change, for a terminal and for scripts, and the suggestion that comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from foregate.policy.source.edit import Change
from foregate.policy.source.key_names import parse_key
from foregate.policy.source.suggestion import format_suggestion
from foregate.schemas.strict_json import Json
from foregate.telemetry.queries.reviews import Agreement, Proposal
from foregate.tuning.assessing import AssessedStep
from foregate.tuning.proof_sentences import describe_path, describe_step, format_share
from foregate.tuning.proposals import describe_values


def choose_step(steps: Sequence[AssessedStep]) -> AssessedStep | None:
    """Return the setting to suggest: of those that are shown the one that lets go most, None where none lets go any."""
    shown = [step for step in steps if step.proof.shown and step.frame.units]
    return max(shown, key=lambda step: (len(step.frame.calls), step.number), default=None)


def format_file(proposal: Proposal, step: AssessedStep) -> str:
    """Return the text of the suggestion of a step: what it changes, under its id, population and bound."""
    body, proof = proposal.body, step.proof
    frame = f"Population: {proof.population} recorded {body.unit}; bound: at most {proof.bound} of them"
    words = [
        f"Change {body.name}, written down {_format_time(proposal)} UTC by {body.by}: {describe_path(body)}.",
        describe_step(body, step),
        f"{frame}, with {format_share(body.confidence)} % confidence; seed {body.seed}.",
    ]
    return format_suggestion(words, [Change(parse_key(key), value) for key, value in step.values.items()])


def _format_time(proposal: Proposal) -> str:
    return proposal.time[:16].replace("T", " ")


def format_report(
    proposal: Proposal, steps: Sequence[AssessedStep], file: Path | None, agreement: Agreement
) -> Iterator[str]:
    """Yield the paragraphs of a report."""
    body, last = proposal.body, steps[-1]
    yield f"{body.name}, written down {_format_time(proposal)} UTC: {describe_path(body)}"
    for step in steps:
        yield f"{describe_values(step.values)}: {describe_step(body, step)}"
    if left := len(body.steps) - len(steps):
        yield f"The walk stops there; {left} looser {'setting is' if left == 1 else 'settings are'} not looked at."
    if not last.proof.shown and last.proof.more is not None:
        yield f"`foregate audit review --change {body.name}` draws the labels."
    chosen = choose_step(steps)
    if file is not None and chosen is not None:
        said = describe_values(chosen.values)
        yield f"Suggested is {said}; `foregate policy apply {body.name}` lays it over your policy file."
    if agreement.double >= agreement.enough:
        yield f"Reviewers: {agreement.sentence}."
    else:
        yield f"How far reviewers agree is told from {agreement.enough} double labels on; there are {agreement.double}."


def build_report_json(
    proposal: Proposal, steps: Sequence[AssessedStep], file: Path | None, agreement: Agreement
) -> Json:
    """Return a report as JSON values."""
    body, chosen = proposal.body, choose_step(steps)
    enough = agreement.double >= agreement.enough
    return {
        "change": body.name,
        "unit": body.unit,
        "allowed": body.allowed,
        "confidence": body.confidence,
        "seed": body.seed,
        "path": [dict(step.values) for step in body.steps],
        "steps": [
            {
                "values": step.values,
                "calls": len(step.frame.calls),
                "drawn": step.drawn,
                **step.proof._asdict(),
                "says": describe_step(body, step),
            }
            for step in steps
        ],
        "suggested": chosen.values if chosen is not None else None,
        "file": str(file) if file is not None else None,
        "agreement": agreement.sentence if enough else None,
        "double": agreement.double,
    }

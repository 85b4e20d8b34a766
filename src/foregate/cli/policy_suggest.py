"""`foregate policy suggest`: a change of the policy, and what labels show of what it lets go."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.assembly.home import Home, open_home_log
from foregate.cli import options
from foregate.cli.options import take
from foregate.cli.policy import app
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import run_async
from foregate.views.terminal.progress import show_pieces

if TYPE_CHECKING:
    from foregate.schemas.strict_json import Json
    from foregate.telemetry.log.sqlite_log import SqliteLog
    from foregate.telemetry.queries.reviews import Agreement, Proposal, Reviews
    from foregate.tuning.assessing import AssessedStep, Assessor
    from foregate.tuning.pieces import Progress
    from foregate.tuning.proposals import Dial, Wanted
    from foregate.tuning.reach_index import ReachIndex


_SEEDS = 1_000_000
Names = list[str]


@app.command("suggest")
def suggest(
    change: Annotated[
        Names | None,
        typer.Argument(metavar="[KEY=VALUE,VALUE... | ID]...", help="Settings from strict to loose, or a change's id."),
    ] = None,
    at_most: Annotated[str, take("--at-most", "Percent of what is let go that may be wrong.", "PERCENT")] = "5",
    confidence: Annotated[str, take("--confidence", "Percent of certainty.", "PERCENT")] = "90",
    seed: Annotated[int | None, take("--seed", "The number the chance begins with; else one is chosen.", "S")] = None,
    of: Annotated[Names | None, take("--session", "Only this session; may be repeated.")] = None,
    policy: options.PolicyFile = None,
    output: Annotated[Path | None, take("--output", "Write the suggestion there, too.", "FILE")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write down settings, from strict to loose, and say what labels show of the calls each lets go. It stops at the
    first that is not shown. Several keys are searched on one half of the sessions and tested on the other. With an ID,
    look again, after `audit review --change ID`.
    """
    from foregate.cli.audit_review import open_reviews

    given = change or []
    if not given:
        _list_changes(as_json)
    elif len(given) == 1 and "=" not in given[0]:
        from foregate.tuning.assessing import Assessor, find_proposal
        from foregate.tuning.rejudging import find_other_versions

        with _open_judging() as (log, index, tell), open_reviews() as kept:
            reviews = run_async(kept.read())
            assessor = run_async(Assessor.open(log, find_proposal(reviews, given[0]), index, tell))
            options.print_problems(find_other_versions(log, assessor.finder.sessions))
            _report(assessor, reviews, output, as_json)
    else:
        wanted = _read_wanted(at_most, confidence, seed, of or (), policy)
        dials = [_read_dial(one, policy) for one in given]
        _propose(dials, wanted, output, as_json)


def _propose(dials: Sequence[Dial], wanted: Wanted, output: Path | None, as_json: bool) -> None:
    from foregate.agent.session.session_log import utc_now
    from foregate.assembly.identity import find_identity
    from foregate.cli.audit_review import open_reviews
    from foregate.tuning.assessing import Assessor
    from foregate.tuning.proposals import propose
    from foregate.tuning.rejudging import find_other_versions

    keys = [dial[0].path for dial in dials]
    if len(set(keys)) < len(keys):
        raise UsageError("a key is given twice; write all its values behind one `=`, with commas between them")
    with _open_judging() as (log, index, tell), open_reviews() as kept:
        proposal, finder = run_async(propose(log, kept, dials, wanted, find_identity(), utc_now(), index, tell))
        options.print_problems(find_other_versions(log, finder.sessions))
        _report(Assessor(proposal, finder), run_async(kept.read()), output, as_json)


@contextmanager
def _open_judging() -> Iterator[tuple[SqliteLog, ReachIndex | None, Progress]]:
    """Yield the log of the home, its tuning index, and what shows on a terminal how far judging has come."""
    from foregate.tuning.reach_index import open_reach_index

    with (
        open_home_log() as log,
        open_reach_index(log, ()) as index,
        show_pieces("judging the log") as tell,
    ):
        yield log, index, tell


def _read_wanted(
    at_most: str, confidence: str, seed: int | None, sessions: Sequence[str], policy: str | None
) -> Wanted:
    import secrets

    from foregate.assembly.choices import find_policy_file
    from foregate.tuning.proposals import Wanted

    file = find_policy_file(policy, os.environ)
    allowed, certain = read_percent(at_most, "--at-most"), read_percent(confidence, "--confidence")
    if not 500 <= certain < 1000:
        raise UsageError(f"`--confidence {confidence[:20]}` is not from 50 to 99.9 percent")
    return Wanted(
        base=_read_text(file),
        file=file.name if file is not None else "the policy",
        allowed=allowed,
        confidence=certain,
        seed=secrets.randbelow(_SEEDS) if seed is None else seed,
        sessions=tuple(sessions),
    )


def _read_text(file: Path | None) -> str:
    """Return the text of a policy file that can be used, "" for none."""
    from foregate.policy.source.layers import build_layer, read_text
    from foregate.policy.source.load import layer_policy

    if file is None:
        return ""
    text = read_text(file)
    layer_policy(build_layer(str(file), file.name, text))
    return text


def read_percent(text: str, flag: str) -> int:
    """Return a percentage in thousandths; raise UsageError for another text."""
    from decimal import Decimal, InvalidOperation

    try:
        found = Decimal(text) * 10
    except InvalidOperation:
        found = Decimal(-1)
    if not found.is_finite() or found != found.to_integral_value() or not 0 <= found <= 1000:
        raise UsageError(f"`{flag} {text[:20]}` is no percentage; write one from 0 to 100, such as 2 or 0.5")
    return int(found)


def _read_dial(text: str, policy: str | None) -> Dial:
    """Return what `KEY=VALUE,VALUE` says; raise UsageError for anything else."""
    from foregate.assembly.choices import find_policy_file
    from foregate.policy.source.edit import NULL
    from foregate.policy.source.key_names import build_change

    key, sign, values = text.partition("=")
    if not sign or not values.strip():
        raise UsageError(f"`{text[:80]}` is neither KEY=VALUE,VALUE nor the id of a change")
    file = find_policy_file(policy, os.environ) or Path(os.devnull)
    changes = [build_change(key, value, file) for value in _split_values(values)]
    if any(change.value is NULL or change.value is None for change in changes):
        raise UsageError(f"`{text[:80]}` takes something out; name values to set")
    if any(change in changes[:place] for place, change in enumerate(changes)):
        raise UsageError(f"`{text[:80]}` names a value twice; each is one setting of the path, so name it once")
    return changes


def _split_values(text: str) -> Iterator[str]:
    """Yield what stands between the commas that are in no brackets."""
    depth, begin = 0, 0
    for place, character in enumerate(text):
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]


def _list_changes(as_json: bool) -> None:
    from foregate.cli.audit_review import open_reviews
    from foregate.tuning.assessing import describe_path

    with open_reviews() as kept:
        found = run_async(kept.read()).proposals
    if as_json:
        options.print_json_rows({"change": name, "path": describe_path(one.body)} for name, one in found.items())
        return
    for name, one in found.items():
        options.print_text(f"{name}  {one.time[:10]}  {describe_path(one.body)}")
    if not found:
        options.print_text("no change was written down yet; `foregate policy suggest KEY=VALUE,VALUE` does", err=True)


def _report(assessor: Assessor, reviews: Reviews, output: Path | None, as_json: bool) -> None:
    from foregate.telemetry.queries.reviews import measure_agreement

    proposal, steps = assessor.proposal, list(assessor.walk(reviews))
    file = _write_suggestion(proposal, steps, output)
    agreement = measure_agreement(reviews)
    if as_json:
        found: Json = build_report_json(proposal, steps, file, agreement)
        options.print_json(found)
        return
    for paragraph in format_report(proposal, steps, file, agreement):
        options.print_text(paragraph)


def _write_suggestion(proposal: Proposal, steps: Sequence[AssessedStep], output: Path | None) -> Path | None:
    """Write the loosest setting that is shown where `policy apply` finds it; return the file, None for none."""
    from foregate.cli.listing import write_new

    file = Home.path() / "suggestions" / f"{proposal.body.name}.yaml"
    step = choose_step(steps)
    if step is None:
        file.unlink(missing_ok=True)
        return None
    text = format_file(proposal, step)
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        file.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"`{file}` cannot be written ({error.strerror}), so nothing is suggested") from None
    if output is not None:
        write_new(output, text)
    return file


def choose_step(steps: Sequence[AssessedStep]) -> AssessedStep | None:
    """Return the setting to suggest: of those that are shown the one that lets go most, None where none lets go any."""
    shown = [step for step in steps if step.proof.shown and step.frame.units]
    return max(shown, key=lambda step: (len(step.frame.calls), step.number), default=None)


def format_file(proposal: Proposal, step: AssessedStep) -> str:
    """Return the text of the suggestion of a step: what it changes, under its id, population and bound."""
    from foregate.policy.source.edit import TextChange, format_suggestion
    from foregate.policy.source.key_names import parse_key
    from foregate.tuning.assessing import describe_path, describe_step, format_share

    body, proof = proposal.body, step.proof
    frame = f"Population: {proof.population} recorded {body.unit}; bound: at most {proof.bound} of them"
    words = [
        f"Change {body.name}, written down {_format_time(proposal)} UTC by {body.by}: {describe_path(body)}.",
        describe_step(body, step),
        f"{frame}, with {format_share(body.confidence)} % confidence; seed {body.seed}.",
    ]
    return format_suggestion(words, [TextChange(parse_key(key), value) for key, value in step.values.items()])


def _format_time(proposal: Proposal) -> str:
    return proposal.time[:16].replace("T", " ")


def format_report(
    proposal: Proposal, steps: Sequence[AssessedStep], file: Path | None, agreement: Agreement
) -> Iterator[str]:
    """Yield the paragraphs of a report."""
    from foregate.tuning.assessing import describe_path, describe_step
    from foregate.tuning.proposals import describe_values

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
    from foregate.tuning.assessing import describe_step

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

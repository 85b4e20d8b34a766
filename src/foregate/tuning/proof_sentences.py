"""What labels show of a change, in words: the population, the bound that is reached, and how many more it takes."""

from __future__ import annotations

from foregate.schemas.review import ChangeProposed
from foregate.tuning.assessing import AssessedStep
from foregate.tuning.proposals import describe_values, format_value


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

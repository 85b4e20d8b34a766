"""Where a second look is worth its price: calls no words of the person's carry, or of which too little is known."""

from __future__ import annotations

from foregate.policy.policy import Policy
from foregate.policy.risk.mandate import is_consequential, list_outside_values
from foregate.schemas.tool_call import CallFacts, Origin
from foregate.schemas.turn import Turn

_SHOWN = 80


def find_doubt(facts: CallFacts, turn: Turn, policy: Policy) -> str:
    """Return why a call is in doubt, "" where it is not: as what the person said in so many words never is.

    What works in a sandbox is none either, for what it did is shown before it counts, and nor is what a dry run shows.
    """
    if facts.contained or facts.authority == "said" or (turn.dry_run and facts.changes):
        return ""
    if facts.authority == "outside":
        value = list_outside_values(facts, turn.depth)[0]
        return f"the person's own words do not say that `{value.text[:_SHOWN]}` goes into `{value.path[:_SHOWN]}`"
    if not facts.changes:
        return ""
    if facts.uncertainty.value >= policy.critique.uncertainty:
        return "; ".join(reason.why for reason in facts.uncertainty.reasons) or "the policy doubts each change"
    if facts.survey.untried:
        return f"`{facts.call.name[:_SHOWN]}` declares nothing and has not run in this session"
    foreign = find_foreign_target(facts) if is_consequential(facts, turn, policy) else ""
    return f"only text from outside names `{foreign[:_SHOWN]}`" if foreign else ""


def find_foreign_target(facts: CallFacts) -> str:
    """Return a target, or a word of a command, that nothing but text from outside said, "" for none."""
    command, names = facts.survey.command, {resource.id for resource in facts.resources}
    names |= set(command.argv) if command is not None else set()
    return next((a.text for a in facts.survey.atoms if a.origin is Origin.EXTERNAL and a.text in names), "")

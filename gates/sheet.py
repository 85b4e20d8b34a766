"""The sheet a person is shown: every call that asks, exactly as it would run, and what a yes would cover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from foregate.gates.advice import describe_plan
from foregate.gates.plan_scope import (
    find_changed_resources,
    find_covering_items,
    find_folder,
    has_own_folder,
    is_exact_only,
)
from foregate.schemas import strict_json
from foregate.schemas.judgement import Grant
from foregate.schemas.protocols import SoFar
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts, Origin
from foregate.schemas.turn import Turn


@dataclass(frozen=True, slots=True)
class Ask:
    """A call that asks, on whose behalf, under which codes (a rule's id where a rule asks), and why."""

    facts: CallFacts
    gate: str
    code: str
    codes: tuple[str, ...]
    why: str


def build_approval_request(
    asks: Sequence[Ask], turn: Turn, so_far: SoFar, changes: Sequence[str], *, same_tool: bool
) -> dict[str, Json]:
    """Return the request a person answers, as JSON. `plan` is the one accepted now: a yes approves it as well.

    With `same_tool` the items of a plan cover only calls to the tool they were made for.
    """
    count, plan = len(asks), so_far.plan
    return {
        "question": f"{count} call{'s' if count != 1 else ''} need{'s' if count == 1 else ''} your yes",
        "calls": [
            {**describe_ask(ask), "plan_items": find_plan_items(ask.facts, turn, so_far, same_tool)} for ask in asks
        ],
        "plan": describe_plan(plan),
        "grants": [strict_json.dump(grant) for ask in asks for grant in build_offered_grants(ask)],
        "changed": list(changes),
    }


def describe_ask(ask: Ask) -> dict[str, Json]:
    """Return one call as the sheet shows it: the bytes that will run, never the model's description."""
    facts = ask.facts
    return {
        "call": facts.call.id,
        "tool": facts.call.name,
        "target": facts.target,
        "folder": find_folder(facts),
        "there": list(facts.survey.command.there) if facts.survey.command is not None else [],
        "effect": facts.effect.value,
        "arguments": facts.call.raw,
        "digest": facts.call.digest,
        "why": [ask.why],
        "rules": list(ask.codes) if ask.code == "asked_by_rule" else [],
        "reversible": not facts.irreversible,
        "external": facts.external,
        "risk": facts.risk.value,
        "said_first": find_first_origin(facts),
    }


def find_plan_items(facts: CallFacts, turn: Turn, so_far: SoFar, same_tool: bool) -> list[int] | None:
    """Return the numbers, from 1, of the items that cover a call of the plan accepted now, else of the one in force.

    None where there is no plan; an empty list where no item covers the call.
    """
    plan = so_far.plan or turn.plan
    if plan is None:
        return None
    used = so_far.uses.get(facts.call.id)
    if used is None:
        spent = Counter(index for items in so_far.uses.values() for index in items)
        used = find_covering_items(facts, plan, spent, same_tool=same_tool, during=turn.during) or ()
    return [index + 1 for index in used]


def find_first_origin(facts: CallFacts) -> str:
    """Return who named the target first, "" when nothing is known of it; a command by its least trusted word."""
    command = facts.survey.command
    names = set(command.argv) if command is not None and command.argv else {r.id for r in facts.resources}
    origins = [atom.origin for atom in facts.survey.atoms if atom.text in names]
    return max(origins, key=list(Origin).index).value if origins else ""


def build_offered_grants(ask: Ask) -> list[Grant]:
    """Return the grants `a` would give: this gate's reason, this effect, exactly these resources or this very call."""
    facts, effect = ask.facts, ask.facts.effect.value
    resources = find_changed_resources(facts) or list(facts.resources)
    grants = []
    for code in ask.codes:
        if is_exact_only(facts) or has_own_folder(facts) or len(resources) != 1:
            grants.append(Grant(ask.gate, code, effect, digest=facts.call.digest))
        else:
            grants.append(Grant(ask.gate, code, effect, resources[0].kind.value, resources[0].id))
    return grants

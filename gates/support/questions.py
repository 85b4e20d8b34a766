"""What planner, critic and person are asked.

Advice gets the user's words, the bare calls, plan and evidence, and nothing else. A person is shown the sheet: every
call that asks, exactly as it would run, and what a yes would cover.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from foregate.gates.support.declaring import describe_undeclared
from foregate.gates.support.mandate import describe_values, find_mandate, name_outside
from foregate.gates.support.plan_scope import (
    find_covering_items,
    find_folder,
    find_scripts,
    has_own_folder,
    is_exact_only,
    name_exact_call,
)
from foregate.policy.policy import Policy, Unavailable
from foregate.policy.risk.losses import describe_stakes
from foregate.policy.risk.mandate import hash_values, list_outside_values, list_values_to_name
from foregate.schemas import strict_json
from foregate.schemas.judgement import Grant, Need, Ruling, Standing, Who
from foregate.schemas.plan import PlanInForce
from foregate.schemas.protocols import SoFar
from foregate.schemas.sources import explain_mandate
from foregate.schemas.strict_json import Json, get_list, get_text
from foregate.schemas.tool_call import CallFacts, Origin
from foregate.schemas.tool_spec import ResourceKind
from foregate.schemas.turn import Turn
from foregate.schemas.value import ArgumentValue

_LONG = 4000
_LINE, _LINES = 300, 3
"""Characters of a line of the critic's, and its issues, that a sheet shows."""


def build_need(turn: Turn, gate: str, who: Who, calls: Sequence[CallFacts], request: Mapping[str, Json]) -> Need:
    """Return a Need keyed by the gate and how often it was answered in this turn."""
    key = f"{gate}:{len(turn.find_answers(gate)) + 1}"
    return Need(gate, who, key, tuple(f.call.id for f in calls), tuple(f.call.digest for f in calls), request)


def join_user_words(turn: Turn) -> str:
    return "\n\n".join(said.text for said in turn.user_messages)[-_LONG:]


def describe_call(facts: CallFacts) -> dict[str, Json]:
    """Return a call as advice sees it: what it is, what it touches and what its tool can do."""
    return {
        "call": facts.call.id,
        "tool": facts.call.name,
        "target": facts.targets[0].id if facts.targets else "",
        "targets": [resource.id for resource in facts.targets],
        "kind": facts.targets[0].kind.value if facts.targets else "",
        "arguments": facts.call.raw[:_LONG],
        "effect": facts.effect.value,
        "risk": facts.risk.value,
        "capabilities": {
            "irreversible": facts.irreversible,
            "external": facts.external,
            **strict_json.dump(facts.capabilities),
        },
    }


def describe_plan(plan: PlanInForce | None, facts: Mapping[str, CallFacts] | None = None) -> Json:
    """Return a plan as a sheet and as advice see it; an item that covers one of the calls of `facts` by its digest
    has that call's words with it."""
    if plan is None:
        return None
    known = {name_exact_call(one)[1]: f"{one.call.name} {one.target}".strip() for one in (facts or {}).values()}
    items: list[Json] = [
        {"effect": i.effect.value, "kind": i.kind.value, "pattern": i.pattern, "uses": i.uses, "used": i.used}
        | ({"folder": i.folder} if i.folder else {})
        | ({"during": i.during} if i.during else {})
        | ({"words": known[i.pattern]} if i.pattern in known else {})
        | ({} if i.exact or i.kind is not ResourceKind.PROCESS else {"further": "any further words"})
        for i in plan.items
    ]
    return {"goal": plan.goal, "revision": plan.revision, "items": items}


def find_standing_without_advice(facts: CallFacts, section: Unavailable) -> Standing:
    """Return how a call stands where no usable advice could be had, as the policy says."""
    choice = section.dangerous if facts.dangerous else section.other
    return {"ask": Standing.ASK, "hold": Standing.HOLD, "proceed": Standing.ALLOW}[choice]


def rule_without_plan(open_: Sequence[CallFacts], error: str, policy: Policy) -> dict[str, Ruling]:
    """Return the rulings when there is no plan to be had, as the policy says for dangerous and other calls."""
    rulings = {}
    for facts in open_:
        standing = find_standing_without_advice(facts, policy.plan.on_unavailable)
        message = f"no plan could be had for this ({error[:120]})"
        ruling = Ruling(standing, "plan_unavailable", message, reason=error[:200])
        if standing is Standing.ALLOW:
            path = f"plan.on_unavailable.{'dangerous' if facts.dangerous else 'other'}"
            message = f"no plan could be had; {path} lets it go"
            ruling = Ruling(standing, "plan_unavailable_let_go", message, reason=error)
        rulings[facts.call.id] = ruling
    return rulings


class Ask(Struct, frozen=True):
    """A call that asks, on whose behalf, under which codes (a rule's id where a rule asks), and why."""

    facts: CallFacts
    gate: str
    code: str
    codes: tuple[str, ...]
    why: str

    @property
    def is_outside(self) -> bool:
        """Whether a person must name a value of the call, so that a yes alone does not do."""
        return self.code == "outside_mandate"


def build_approval_request(
    asks: Sequence[Ask], turn: Turn, so_far: SoFar, changes: Sequence[str], policy: Policy
) -> dict[str, Json]:
    """Return the request a person answers, as JSON. `plan` is the one accepted now: a yes approves it as well.

    Where a policy binds a plan by its steps, its items cover only calls to the tool they were made for.
    """
    count, plan, same_tool = len(asks), so_far.plan, policy.plan.binding == "steps"
    grants = [strict_json.dump(grant) for ask in asks for grant in build_offered_grants(ask)]
    if turn.actor == "sandbox":
        told: dict[str, Json] = {"question": "this ran in a sandbox: may what it changed there be kept?", "plan": None}
        return told | {
            "calls": [describe_ask(ask, policy, turn, so_far) for ask in asks],
            "grants": grants,
            "changed": list(changes),
        }
    return {
        "question": f"{count} call{'s' if count != 1 else ''} need{'s' if count == 1 else ''} your yes",
        "calls": [
            {
                **describe_ask(ask, policy, turn, so_far),
                "plan_items": find_plan_items(ask.facts, turn, so_far, same_tool),
            }
            for ask in asks
        ],
        "plan": describe_plan(plan, so_far.facts),
        "grants": grants,
        "changed": list(changes),
    }


def describe_acceptance(ask: Ask, so_far: SoFar) -> list[Json]:
    """Return what the critic said when it let a call pass in this turn: its summary, and its issues; else nothing."""
    for row in so_far.decisions:
        accepted = (ruling.call for ruling in row.rulings if ruling.code == "critique_accepted")
        if row.gate == "critique" and ask.facts.call.id in accepted:
            issues = get_list(row.detail, "issues")
            return [get_text(row.detail, "summary", "")[:_LINE], *(str(issue)[:_LINE] for issue in issues[:_LINES])]
    return []


def describe_ask(ask: Ask, policy: Policy, turn: Turn, so_far: SoFar) -> dict[str, Json]:
    """Return one call as the sheet shows it: the bytes that will run, never the model's description."""
    facts, unheld, accepted = ask.facts, ask.facts.survey.unheld, describe_acceptance(ask, so_far)
    mandate = find_mandate(facts, turn, so_far, policy)
    asked, why = explain_mandate(strict_json.dump(mandate)) if mandate is not None else "", ask.why
    if mandate is not None and ask.is_outside and mandate.outside:
        # What the gate says in short stands in the sentence already.
        told = name_outside(list_outside_values(facts, turn.depth))
        asked, why = f"{asked}; it takes more than a yes", why.removeprefix(told).removeprefix("; ")
    return {
        "call": facts.call.id,
        "tool": facts.call.name,
        "target": facts.target,
        "folder": find_folder(facts),
        "there": list(facts.survey.command.there) if facts.survey.command is not None else [],
        "effect": facts.effect.value,
        "arguments": facts.call.raw,
        "digest": facts.call.digest,
        "why": [*filter(None, (why, asked, f"no sandbox holds it here: {unheld}" if unheld else ""))],
        "rules": list(ask.codes) if ask.code == "asked_by_rule" else [],
        "reversible": not facts.irreversible,
        "external": facts.external,
        "risk": facts.risk.value,
        "at_stake": describe_stakes(facts, policy),
        "said_first": find_first_origin(facts),
        **({"values": values} if (values := describe_values(facts)) else {}),
        **({"critic": accepted} if accepted else {}),
        **({"to_name": list_names(list_values_to_name(facts, turn.depth))} if ask.is_outside else {}),
        **describe_undeclared(facts, policy),
    }


def list_names(values: Iterable[ArgumentValue]) -> list[Json]:
    """Return what a person types for values, each thing once: the value, or what its record or its read is called."""
    return [*dict.fromkeys(value.name or value.text for value in values)]


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
    facts = ask.facts
    if ask.is_outside:
        return []
    scripts, values = find_scripts(facts), hash_values(facts)
    bare = [Grant(ask.gate, code, facts.effect.value, scripts=scripts, values=values) for code in ask.codes]
    if is_exact_only(facts) or has_own_folder(facts) or len(facts.targets) != 1:
        return [replace(grant, digest=facts.call.digest) for grant in bare]
    (thing,) = facts.targets
    return [replace(grant, kind=thing.kind.value, pattern=thing.id) for grant in bare]

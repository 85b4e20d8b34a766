"""What planner and critic are asked: the user's words, the bare calls, plan and evidence, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foregate.schemas import strict_json
from foregate.schemas.judgement import Need, Who
from foregate.schemas.plan import PlanInForce
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import ResourceKind
from foregate.schemas.turn import Turn

_LONG = 4000


def build_planning_need(turn: Turn, calls: Sequence[CallFacts], defect: str) -> Need:
    """Return the planner's Need for calls no plan covers; `defect` names what was wrong with the last answer."""
    request: dict[str, Json] = {
        "user_words": join_user_words(turn),
        "narration": turn.text[:_LONG],
        "calls": [describe_call(facts) for facts in calls],
        "amendment": turn.plan is not None,
        "plan": describe_plan(turn.plan),
        "defect": defect,
    }
    return build_need(turn, "plan", "planner", calls, request)


def build_critique_need(turn: Turn, calls: Sequence[CallFacts], plan: PlanInForce | None) -> Need:
    """Return the critic's Need for a plan, or for calls under level `call`."""
    evidence: list[Json] = [
        {"resource": r.id, "exists": r.exists, "seen": [seen.kind.value for seen in r.evidence]}
        for facts in calls
        for r in facts.resources
    ]
    request: dict[str, Json] = {
        "user_words": join_user_words(turn),
        "calls": [describe_call(facts) for facts in calls],
        "plan": describe_plan(plan or turn.plan),
        "evidence": evidence,
    }
    return build_need(turn, "critique", "critic", calls, request)


def build_need(turn: Turn, gate: str, who: Who, calls: Sequence[CallFacts], request: Mapping[str, Json]) -> Need:
    """Return a Need keyed by the gate and how often it was answered in this turn."""
    return Need(
        gate,
        who,
        f"{gate}:{len(turn.find_answers(gate)) + 1}",
        tuple(facts.call.id for facts in calls),
        tuple(facts.call.digest for facts in calls),
        request,
    )


def join_user_words(turn: Turn) -> str:
    """Return the task's user messages, oldest first."""
    return "\n\n".join(said.text for said in turn.user_messages)[-_LONG:]


def describe_call(facts: CallFacts) -> dict[str, Json]:
    """Return a call as advice sees it: what it is, what it touches and what its tool can do."""
    changing = [resource for resource in facts.resources if resource.access.changes] or list(facts.resources)
    return {
        "call": facts.call.id,
        "tool": facts.call.name,
        "target": changing[0].id if changing else "",
        "targets": [resource.id for resource in changing],
        "kind": changing[0].kind.value if changing else "",
        "arguments": facts.call.raw[:_LONG],
        "effect": facts.effect.value,
        "risk": facts.risk.value,
        "capabilities": {
            "irreversible": facts.irreversible,
            "external": facts.external,
            **strict_json.dump(facts.capabilities),
        },
    }


def describe_plan(plan: PlanInForce | None) -> Json:
    """Return the plan in force as advice sees it."""
    if plan is None:
        return None
    items = [
        {"effect": i.effect.value, "kind": i.kind.value, "pattern": i.pattern, "uses": i.uses, "used": i.used}
        | ({"folder": i.folder} if i.folder else {})
        | ({"during": i.during} if i.during else {})
        | ({} if i.exact or i.kind is not ResourceKind.PROCESS else {"further": "any further words"})
        for i in plan.items
    ]
    return {"goal": plan.goal, "revision": plan.revision, "items": items}

"""Gate `plan`: what the person's words do not carry needs a plan, made once per request from those words alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from foregate.gates.approval import spare_advice
from foregate.gates.blind_plan import (
    bring_into_force,
    build_blind_need,
    find_blind_answers,
    find_structural_defect,
    read_blind_plan,
)
from foregate.gates.blind_scope import find_planned_item
from foregate.gates.mandate import describe_words
from foregate.gates.permitting import cite_leave
from foregate.gates.plan_scope import find_covering_items
from foregate.gates.questions import rule_without_plan
from foregate.policy.policy import Policy
from foregate.policy.risk.mandate import wants_plan
from foregate.schemas.codes import GateName
from foregate.schemas.judgement import Mode, Need, Opinion, Ruling, Standing, build_rulings, rule_alike
from foregate.schemas.plan import PlanHead, PlanInForce
from foregate.schemas.plan_terms import use_items
from foregate.schemas.protocols import SoFar
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts, ToolCall
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn

ASKED_ENOUGH = "the planner was asked about this response as often as the policy allows; send it again, smaller"
SPARED = "nobody can say yes to this, so the planner was not asked"
_UNCOVERED = Ruling(
    Standing.ASK, "plan_drift", "no plan made from the person's words covers this", reason="not_in_plan"
)


class PlanGate(Struct, frozen=True, dict=True):
    """Asks the planner, who sees no call, for what the words leave open, and binds the calls to its steps."""

    policy: Policy
    catalogue: Catalogue
    name: GateName = "plan"

    @cached_property
    def mode(self) -> Mode:
        return self.policy.plan.mode

    @property
    def shadow_asks(self) -> bool:
        return self.policy.plan.shadow_asks

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion | Need:
        for call in live:
            facts = so_far.facts[call.id]
            if facts.authority or facts.has_leave or wants_plan(facts, turn, self.policy):
                return _Planning(self.policy, self.catalogue, turn, so_far).rule(live)
        return Opinion(build_rulings(self.name, live, {}))


class _Planning(Struct, frozen=True):
    """The gate's work on one turn."""

    policy: Policy
    catalogue: Catalogue
    turn: Turn
    so_far: SoFar

    def rule(self, live: Sequence[ToolCall]) -> Opinion | Need:
        """Return the rulings on all live calls, or the planner's Need for those that want a plan."""
        facts = [self.so_far.facts[call.id] for call in live]
        wanted = [one for one in facts if wants_plan(one, self.turn, self.policy)]
        opinion = self.rule_on(wanted, facts)
        if isinstance(opinion, Need):
            return opinion
        others = [one for one in facts if one not in wanted]
        spared = {one.call.id: ruling for one in others if (ruling := spare_plan(one)) is not None}
        return Opinion(
            build_rulings("plan", live, {**spared, **opinion.rulings}),
            detail=opinion.detail,
            summary=opinion.summary,
            plan=opinion.plan,
            uses=opinion.uses,
        )

    def rule_on(self, wanted: Sequence[CallFacts], facts: Sequence[CallFacts]) -> Opinion | Need:
        """Return the rulings on the calls that want a plan, with what all calls use of it, or the planner's Need."""
        turn, plan = self.turn, self.turn.plan
        open_, uses = self.compare(plan, wanted, facts)
        if not open_ or (plan is not None and plan.blind) or turn.depth > 0:
            return self.rule_on_open(open_, uses, plan)
        answers = find_blind_answers(turn)
        if not answers:
            return self.ask_planner(open_, uses)
        made = read_blind_plan(answers[-1])
        if made is None:
            error = answers[-1].error or "plan_generation_failed"
            missing = replace(plan or PlanInForce(0, "", ()), blind=True, missing=error[:200])
            opinion = self.rule_on_open(open_, uses, missing)
            return Opinion(
                opinion.rulings, detail={"result": "unavailable", "error": error}, plan=missing, uses=opinion.uses
            )
        if defect := find_structural_defect(made):
            if len(answers) == 1:
                return self.ask_planner(open_, uses, defect)
            return Opinion(self.reject_plan(open_, defect), detail=describe_plan_found(made, "rejected"), uses=uses)
        in_force = bring_into_force(made, open_, self.catalogue, turn, self.policy)
        left, uses = self.compare(in_force, wanted, facts)
        accepted = Ruling(Standing.ALLOW, "plan_accepted", f"plan v{in_force.revision} accepted: {in_force.goal[:200]}")
        rulings = rule_alike([one for one in open_ if one not in left], accepted)
        drift = rule_alike(left, _UNCOVERED)
        detail = describe_plan_found(made, "accepted") | {"revision": in_force.revision}
        return Opinion({**rulings, **drift}, detail=detail, plan=in_force, uses=uses)

    def reject_plan(self, open_: Sequence[CallFacts], defect: str) -> dict[str, Ruling]:
        """Return the rulings on calls whose planner made a plan with a defect twice; beside a plan they are drift."""
        if self.turn.plan is not None:
            return rule_alike(open_, replace(_UNCOVERED, reason=defect))
        message = f"the plan made from the person's words is none ({defect}); say what this is for, and send it again"
        return rule_alike(open_, Ruling(Standing.HOLD, "plan_rejected", message, reason=defect))

    def rule_on_open(
        self, open_: Sequence[CallFacts], uses: Mapping[str, tuple[int, ...]], plan: PlanInForce | None
    ) -> Opinion:
        """Return the rulings on calls that the plan there is leaves open."""
        if plan is not None and plan.missing:
            return Opinion(rule_without_plan(open_, plan.missing, self.policy), uses=uses)
        return Opinion(rule_alike(open_, _UNCOVERED), uses=uses)

    def compare(
        self, plan: PlanInForce | None, wanted: Sequence[CallFacts], facts: Sequence[CallFacts]
    ) -> tuple[list[CallFacts], dict[str, tuple[int, ...]]]:
        """Return the calls that want a plan and are not covered, and what the others use of it, one after the other.

        What the person asked for in so many words uses up a step as well, so that no other call has it.
        """
        left, same_tool = [], plan is not None and self.policy.plan.binding == "steps"
        uses: dict[str, tuple[int, ...]] = {}
        for one in facts:
            if one not in wanted and one.authority != "said":
                continue
            found: tuple[int, ...] | None = None
            if plan is not None:
                at = find_planned_item(one, plan, self.turn, self.policy)
                found = (at,) if at is not None else None
                if found is None and one.authority != "outside":
                    found = find_covering_items(one, plan, {}, same_tool=same_tool, during=self.turn.during)
            if plan is not None and found is not None:
                uses[one.call.id], plan = found, use_items(plan, found, one.call.arguments or {})
            elif one in wanted:
                left.append(one)
        return left, uses

    def ask_planner(
        self, open_: Sequence[CallFacts], uses: Mapping[str, tuple[int, ...]], defect: str = ""
    ) -> Need | Opinion:
        """Return the planner's Need, or the opinion without one when no further question may be asked."""
        turn, policy = self.turn, self.policy
        if turn.has_asked_enough("plan", policy.limits.needs_per_gate):
            held = Ruling(Standing.HOLD, "plan_unavailable", ASKED_ENOUGH, reason=defect or "needs_per_gate")
            return Opinion(rule_alike(open_, held), uses=uses)
        if 0 < policy.safety.model_calls <= turn.counters.safety_calls:
            return Opinion(rule_without_plan(open_, "safety_budget", policy), uses=uses)
        if asks := spare_advice("plan", open_, turn, self.so_far, policy, covered=True):
            return Opinion(asks, summary=SPARED, uses=uses)
        return build_blind_need(turn, open_, policy, self.catalogue, defect)


def spare_plan(facts: CallFacts) -> Ruling | None:
    """Return why no plan is asked for a call: the person said it all, or has to name a value; None for no reason."""
    if facts.changes and facts.has_leave:
        return Ruling(Standing.ALLOW, "plan_not_required", cite_leave(facts))
    if facts.changes and facts.authority == "said":
        return Ruling(Standing.ALLOW, "plan_not_required", f"the person asked for this: {describe_words(facts)}")
    if facts.changes and facts.authority == "outside":
        return Ruling(Standing.ALLOW, "plan_not_required", "no plan can stand for a value that only a person can name")
    return None


def describe_plan_found(plan: PlanHead, result: str) -> dict[str, Json]:
    """Return what a decision says of a plan that was `accepted` or `rejected`."""
    return {
        "result": result,
        "plan": plan.model_dump(mode="json"),
        "requires_verification": plan.requires_verification,
        "criteria": len(plan.success_criteria),
        "risks": len(plan.risky_actions),
    }

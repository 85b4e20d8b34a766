"""Gate `plan`: a call that needs a plan is covered by an accepted one, or the planner is asked for it.

The planner answers with strict JSON of a schema: goal, success criteria, first action, steps. A plan with a defect is
asked for once more, with the defect; a second one is rejected. What an accepted plan leaves uncovered is drift.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from foregate.gates.approval import spare_advice
from foregate.gates.support.blind_planner import BlindPlanner
from foregate.gates.support.call_planner import CallPlanner
from foregate.gates.support.mandate import cite_leave, describe_words
from foregate.gates.support.plan_scope import describe_remedy, list_exact_commands
from foregate.gates.support.planned_steps import find_items
from foregate.gates.support.questions import rule_without_plan
from foregate.policy.policy import Policy
from foregate.policy.risk.mandate import wants_plan
from foregate.schemas.codes import GateName
from foregate.schemas.judgement import Answer, Mode, Need, Opinion, Ruling, Standing, build_rulings, rule_alike
from foregate.schemas.plan import PlanHead, PlanInForce, use_items
from foregate.schemas.protocols import SoFar
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts, ToolCall
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn

Uses = Mapping[str, tuple[int, ...]]
"""The items of a plan that calls use, by call."""
ASKED_ENOUGH = "the planner was asked about this response as often as the policy allows; send it again, smaller"
SPARED = "nobody can say yes to this, so the planner was not asked"
PLAN_REASONS = (
    "missing_goal",
    "missing_success_criteria",
    "missing_first_action_tool",
    "first_action_tool_mismatch",
    "missing_first_action_description",
    "missing_first_action_target",
    "first_action_target_mismatch",
    "missing_verification_requirement",
    "missing_risk_acknowledgment",
    "missing_plan_version",
    "planned_steps_first_action_mismatch",
    "planned_steps_first_action_target_mismatch",
    "planned_steps_incomplete_entry",
)
"""Why a plan is rejected, in the order they are checked."""


class PlanGate(Struct, frozen=True, dict=True):
    """Asks the planner for what no plan covers, checks the answer, and binds the calls to its steps.

    The `planner` sees the person's words alone (`plan.form: blind`) or the calls as well (`call`).
    """

    policy: Policy
    catalogue: Catalogue
    name: GateName = "plan"

    def __post_init__(self) -> None:
        # What is read of a policy when its gates are built counts for every turn, and what a turn reads for that alone.
        _ = self.planner

    @cached_property
    def mode(self) -> Mode:
        return self.policy.plan.mode

    @property
    def shadow_asks(self) -> bool:
        return self.policy.plan.shadow_asks

    @cached_property
    def planner(self) -> BlindPlanner | CallPlanner:
        return (BlindPlanner if self.policy.plans_blind else CallPlanner)(self.policy, self.catalogue)

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion | Need:
        facts = [so_far.facts[call.id] for call in live]
        wanted = self.select_calls(facts, turn)
        if not wanted and not any(one.authority or one.has_leave for one in facts):
            return Opinion(build_rulings(self.name, live, {}))
        opinion = self.rule_on(wanted, facts, turn, so_far)
        if isinstance(opinion, Need):
            return opinion
        spared = {one.call.id: ruling for one in facts if one not in wanted and (ruling := spare_plan(one))}
        return replace(opinion, rulings=build_rulings(self.name, live, {**spared, **opinion.rulings}))

    def select_calls(self, facts: Sequence[CallFacts], turn: Turn) -> list[CallFacts]:
        """Return the calls that need a plan.

        Of a blind planner those that the person's words alone do not carry. Else the changes that are risky or go
        beyond the task's changed resources: what works in a sandbox needs none, since what it changes is shown before
        it counts and can be taken back, nor does what the person asked for in so many words, permitted, or alone can
        name.
        """
        if self.policy.plans_blind:
            return [one for one in facts if wants_plan(one, turn, self.policy)]
        section, before = self.policy.plan, turn.counters.changes - turn.counters.contained_changes
        if turn.depth > 0 and section.depth == "top_level":
            return []
        begun = turn.plan is not None or (before > 0 and section.due == "first_side_effect")
        if begun and section.binding == "first_action":
            return []
        due, touched = [], turn.counters.changed_resources
        first = before == 0 or turn.plan is not None
        for one in facts:
            if one.contained or (one.changes and (one.has_leave or one.authority in ("said", "outside"))):
                continue
            new = [resource for resource in one.changed_resources if not resource.changed_before]
            touched += len(new) if one.changes else 0
            many = bool(new) and 0 < section.changed_resources <= touched
            if one.changes and (one.risky or many or (first and section.due == "first_side_effect")):
                due.append(one)
        return due[:1] if len(due) > 1 and section.binding == "first_action" else due

    def rule_on(
        self, wanted: Sequence[CallFacts], facts: Sequence[CallFacts], turn: Turn, so_far: SoFar
    ) -> Opinion | Need:
        """Return the rulings on the calls that want a plan, with what all calls use of it, or the planner's Need."""
        open_, uses = self.find_uncovered(turn.plan, wanted, facts, turn)
        if not open_:
            return Opinion({}, uses=uses)
        if (ruled := self.planner.rule_unasked(open_, turn)) is not None:
            return Opinion(ruled, uses=uses)
        answers = self.planner.find_answers(turn)
        if not answers:
            return self.ask_planner(open_, uses, turn, so_far)
        proposal = self.planner.read_answer(answers[-1], open_[0])
        if proposal is None:
            return self.rule_unavailable(open_, uses, answers[-1], turn)
        plan, own_defects = proposal
        if not (defect := find_defect(plan, own_defects)):
            return self.accept_plan(plan, open_, wanted, facts, turn)
        if len(answers) == 1:
            return self.ask_planner(open_, uses, turn, so_far, defect)
        ruling = Ruling(Standing.HOLD, "plan_rejected", self.planner.rejected.format(defect), reason=defect)
        # Beside a plan only the calls it does not cover are at fault.
        if turn.plan is not None:
            ruling = self.planner.build_drift(defect)
        return Opinion(rule_alike(open_, ruling), detail=describe_plan_found(plan, "rejected"), uses=uses)

    def find_uncovered(
        self, plan: PlanInForce | None, wanted: Sequence[CallFacts], facts: Sequence[CallFacts], turn: Turn
    ) -> tuple[list[CallFacts], dict[str, tuple[int, ...]]]:
        """Return the calls that want a plan and are not covered, and what the others use of it, one after the other.

        Beside a blind plan a call the person asked for in so many words uses a step as well, so that no other has it.
        """
        left: list[CallFacts] = []
        uses: dict[str, tuple[int, ...]] = {}
        for one in facts:
            if one not in wanted and not (self.planner.blind and one.authority == "said"):
                continue
            found = find_items(one, plan, turn, self.policy, by_words=self.planner.blind) if plan is not None else None
            if plan is not None and found is not None:
                uses[one.call.id], plan = found, use_items(plan, found, one.call.arguments or {})
            elif one in wanted:
                left.append(one)
        return left, uses

    def ask_planner(
        self, open_: Sequence[CallFacts], uses: Uses, turn: Turn, so_far: SoFar, defect: str = ""
    ) -> Need | Opinion:
        """Return the planner's Need, or the opinion without one when no further question may be asked."""
        policy = self.policy
        if turn.has_asked_enough(self.name, policy.limits.needs_per_gate):
            held = Ruling(Standing.HOLD, "plan_unavailable", ASKED_ENOUGH, reason=defect or "needs_per_gate")
            return Opinion(rule_alike(open_, held), uses=uses)
        if 0 < policy.safety.model_calls <= turn.counters.safety_calls:
            return Opinion(rule_without_plan(open_, "safety_budget", policy), uses=uses)
        if asks := spare_advice(self.name, open_, turn, so_far, policy, covered=self.planner.blind):
            return Opinion(asks, summary=SPARED, uses=uses)
        return self.planner.build_need(turn, open_, defect)

    def rule_unavailable(self, open_: Sequence[CallFacts], uses: Uses, answer: Answer, turn: Turn) -> Opinion:
        """Return the opinion where the planner's answer holds no plan."""
        error = answer.error or "plan_generation_failed"
        missing = self.planner.mark_missing(turn.plan, error)
        rulings = rule_without_plan(open_, missing.missing if missing is not None else error, self.policy)
        return Opinion(rulings, detail={"result": "unavailable", "error": error}, plan=missing, uses=uses)

    def accept_plan(
        self,
        plan: PlanHead,
        open_: Sequence[CallFacts],
        wanted: Sequence[CallFacts],
        facts: Sequence[CallFacts],
        turn: Turn,
    ) -> Opinion:
        """Return the opinion of a sound plan: what it covers may pass, what it leaves out is drift."""
        in_force = self.planner.put_in_force(plan, open_, turn)
        left, uses = self.find_uncovered(in_force, wanted, facts, turn)
        exactly = list_exact_commands(in_force)
        remedy = describe_remedy(exactly)
        message = f"plan v{in_force.revision} accepted: {in_force.goal[:200]}{remedy}"
        accepted = rule_alike(open_, Ruling(Standing.ALLOW, "plan_accepted", message))
        detail = describe_plan_found(plan, "accepted") | {"revision": in_force.revision}
        return Opinion(
            accepted | rule_alike(left, self.planner.build_drift("not_in_plan", remedy)),
            detail=detail | ({"exactly": exactly} if exactly else {}),
            plan=in_force,
            first="" if self.planner.blind else open_[0].call.id,
            uses=uses,
        )


def find_defect(plan: PlanHead, own: Collection[str]) -> str:
    """Return the first of PLAN_REASONS for which this is no plan, "" when it is one.

    `own` are those that the planner found, who knows whether the plan must fit a call.
    """
    first = plan.first_action
    found = {
        "missing_goal": not plan.goal.strip(),
        "missing_success_criteria": not any(item.text.strip() for item in plan.success_criteria),
        "missing_first_action_tool": not first.tool.strip(),
        "missing_first_action_description": not first.description.strip(),
        "missing_verification_requirement": not plan.requires_verification,
        "missing_risk_acknowledgment": not any(text.strip() for text in plan.risky_actions),
        "missing_plan_version": plan.version <= 0,
    }
    return next((reason for reason in PLAN_REASONS if reason in own or found.get(reason)), "")


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

"""Gate `plan`: a risky call needs an accepted plan that covers it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pydantic import ValidationError

from foregate.gates.approval import spare_advice
from foregate.gates.counts import has_asked_enough
from foregate.gates.plan_scope import find_covering_items, list_exact_commands, put_in_force
from foregate.gates.questions import build_planning_need
from foregate.policy.policy import Policy
from foregate.schemas.codes import GateName
from foregate.schemas.judgement import Answer, Mode, Need, Opinion, Ruling, Standing
from foregate.schemas.plan import Criterion, Plan, PlanInForce, PlannedAction, PlannedStep
from foregate.schemas.protocols import SoFar
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts, ToolCall
from foregate.schemas.tool_spec import Catalogue, ResourceKind
from foregate.schemas.turn import Turn

_PASSED = Ruling(Standing.ALLOW, "plan_passed")
_ASKED_ENOUGH = "the planner was asked about this response as often as the policy allows; send it again, smaller"
_SPARED = "nobody can say yes to this, so the planner was not asked"
_DRIFT = "the accepted plan does not cover this; keep to the plan, or say why it must be widened"
_NAME_IT = (
    "which do not say what would run; for any further words name the script, module or subcommand, as in "
    "`python3 -m pytest`"
)
_SHOWN = 3
"""Commands that a sentence names."""
_LENGTH = 60
"""Characters it shows of each."""


@dataclass(frozen=True)
class PlanGate:
    """Asks the planner for what no plan covers, checks the answer against the call, and binds it as a scope."""

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
        rulings = {call.id: _PASSED for call in live}
        due = self.find_due_calls(turn, [so_far.facts[call.id] for call in live])
        open_, uses = self.find_uncovered_calls(due, turn.plan, turn.during)
        if not open_:
            return Opinion(rulings, uses=uses)
        if turn.plan is not None and turn.plan.amendments >= self.policy.plan.max_amendments:
            return Opinion(rulings | self.hold_as_drift(open_, "max_amendments"), uses=uses)
        answers = turn.find_answers(self.name)
        if not answers:
            return self.ask_planner(turn, so_far, open_, rulings, uses, "")
        plan = read_plan(answers[-1])
        if plan is None:
            return Opinion(
                rulings | self.rule_without_plan(open_, answers[-1].error or "plan_generation_failed"),
                detail={"result": "unavailable", "error": answers[-1].error},
                uses=uses,
            )
        reason = find_defect(plan, open_[0])
        if reason and len(answers) == 1:
            return self.ask_planner(turn, so_far, open_, rulings, uses, reason)
        if reason:
            return Opinion(
                rulings | self.hold_rejected_plan(open_, turn, reason), detail=build_detail(plan, "rejected"), uses=uses
            )
        return self.accept_plan(plan, turn, due, open_, dict(rulings))

    def find_due_calls(self, turn: Turn, live: Sequence[CallFacts]) -> list[CallFacts]:
        """Return the changes that need a plan: risky ones, and what goes beyond the task's changed resources."""
        section = self.policy.plan
        if section.depth == "top_level" and turn.depth > 0:
            return []
        if section.binding == "first_action" and turn.plan is not None:
            return []
        due, touched = [], turn.counters.changed_resources
        for facts in live:
            if not facts.changes:
                continue
            new = [r for r in facts.resources if r.access.changes and not r.changed_before]
            touched += len(new)
            many = bool(new) and 0 < section.changed_resources <= touched
            if (
                facts.risky
                or many
                or (section.due == "first_side_effect" and (turn.counters.changes == 0 or turn.plan))
            ):
                due.append(facts)
        return due[:1] if section.binding == "first_action" else due

    def find_uncovered_calls(
        self, due: Sequence[CallFacts], plan: PlanInForce | None, during: str
    ) -> tuple[list[CallFacts], dict[str, tuple[int, ...]]]:
        """Return the calls a plan does not cover, and what the others use of it."""
        left, uses, spent = [], {}, dict[int, int]()
        same_tool = self.policy.plan.binding == "steps"
        for facts in due:
            found = find_covering_items(facts, plan, spent, same_tool=same_tool, during=during) if plan else None
            if found is None:
                left.append(facts)
                continue
            uses[facts.call.id] = found
            for index in found:
                spent[index] = spent.get(index, 0) + 1
        return left, uses

    def ask_planner(
        self,
        turn: Turn,
        so_far: SoFar,
        open_: Sequence[CallFacts],
        rulings: Mapping[str, Ruling],
        uses: Mapping[str, tuple[int, ...]],
        reason: str,
    ) -> Need | Opinion:
        """Return the planner's Need, or the opinion without one when no further question may be asked."""
        bound = self.policy.safety.model_calls
        if has_asked_enough(turn, self.name, self.policy.limits.needs_per_gate):
            held = Ruling(Standing.HOLD, "plan_unavailable", _ASKED_ENOUGH, reason=reason or "needs_per_gate")
            return Opinion({**rulings, **{facts.call.id: held for facts in open_}}, uses=uses)
        if 0 < bound <= turn.counters.safety_calls:
            return Opinion({**rulings, **self.rule_without_plan(open_, "safety_budget")}, uses=uses)
        if asks := spare_advice(self.name, open_, turn, so_far, self.policy):
            return Opinion({**rulings, **asks}, summary=_SPARED, uses=uses)
        return build_planning_need(turn, open_, reason)

    def accept_plan(
        self, plan: Plan, turn: Turn, due: Sequence[CallFacts], open_: Sequence[CallFacts], rulings: dict[str, Ruling]
    ) -> Opinion:
        """Return the opinion of a plan that fits: what it covers may go on, what it leaves out is held."""
        in_force = put_in_force(plan, open_[0], self.catalogue, turn.plan, self.policy)
        left, uses = self.find_uncovered_calls(due, in_force, turn.during)
        exactly = list_exact_commands(in_force)
        remedy = describe_remedy(exactly)
        message = f"plan v{in_force.revision} accepted: {in_force.goal[:200]}{remedy}"
        for facts in open_:
            rulings[facts.call.id] = Ruling(Standing.ALLOW, "plan_accepted", message)
        return Opinion(
            rulings | self.hold_as_drift(left, "not_in_plan", remedy),
            detail=build_detail(plan, "accepted")
            | {"revision": in_force.revision}
            | ({"exactly": exactly} if exactly else {}),
            plan=in_force,
            first=open_[0].call.id,
            uses=uses,
        )

    def hold_as_drift(self, open_: Sequence[CallFacts], why: str, remedy: str = "") -> dict[str, Ruling]:
        """Return the holds of calls the plan does not cover."""
        return {facts.call.id: Ruling(Standing.HOLD, "plan_drift", _DRIFT + remedy, reason=why) for facts in open_}

    def hold_rejected_plan(self, open_: Sequence[CallFacts], turn: Turn, reason: str) -> dict[str, Ruling]:
        """Return the holds after a plan failed its checks twice; an amendment that fails is drift of its call only."""
        if turn.plan is not None:
            return self.hold_as_drift(open_, reason)
        message = f"the plan made for this does not fit it ({reason}); reconsider the call, or send a smaller one"
        return {facts.call.id: Ruling(Standing.HOLD, "plan_rejected", message, reason=reason) for facts in open_}

    def rule_without_plan(self, open_: Sequence[CallFacts], error: str) -> dict[str, Ruling]:
        """Return the rulings when there is no plan to be had, as the policy says for dangerous and other calls."""
        section, rulings = self.policy.plan.on_unavailable, {}
        for facts in open_:
            dangerous = facts.external or facts.irreversible or facts.high_impact
            choice = section.dangerous if dangerous else section.other
            path = f"plan.on_unavailable.{'dangerous' if dangerous else 'other'}"
            if choice == "proceed":
                rulings[facts.call.id] = Ruling(
                    Standing.ALLOW, "plan_unavailable_let_go", f"no plan could be had; {path} lets it go", reason=error
                )
            else:
                standing = Standing.ASK if choice == "ask" else Standing.HOLD
                message = f"no plan could be had for this ({error[:120]})"
                rulings[facts.call.id] = Ruling(standing, "plan_unavailable", message, reason=error[:200])
        return rulings


def read_plan(answer: Answer) -> Plan | None:
    """Return the trimmed plan of an answer, None when there is none in it."""
    if answer.value is None:
        return None
    try:
        return trim_plan(Plan.model_validate(answer.value))
    except ValidationError:
        return None


def describe_remedy(commands: Sequence[str]) -> str:
    """Return what to write instead of commands a plan covers in exactly their words, "" where there are none."""
    if not commands:
        return ""
    named = ", ".join(f"`{command[:_LENGTH]}`" for command in commands[:_SHOWN])
    many = f" and {len(commands) - _SHOWN} more" if len(commands) > _SHOWN else ""
    return f"; of {named}{many} it covers exactly these words, {_NAME_IT}"


def build_detail(plan: Plan, result: str) -> dict[str, Json]:
    """Return what is recorded of a plan."""
    return {
        "result": result,
        "plan": plan.model_dump(mode="json"),
        "requires_verification": plan.requires_verification,
        "criteria": len(plan.success_criteria),
        "risks": len(plan.risky_actions),
    }


def trim_plan(plan: Plan) -> Plan:
    """Return the plan without blanks around its texts and without blank entries; nothing else is changed."""
    steps = [
        PlannedStep(
            tool=step.tool.strip(),
            target=step.target.strip(),
            description=step.description.strip(),
            effect=step.effect,
            uses=step.uses,
        )
        for step in plan.planned_steps or []
    ]
    first = plan.first_action
    return Plan(
        goal=plan.goal.strip(),
        success_criteria=[_trim_criterion(item) for item in plan.success_criteria if item.text.strip()],
        first_action=PlannedAction(
            tool=first.tool.strip(), target=first.target.strip(), description=first.description.strip()
        ),
        requires_verification=plan.requires_verification,
        risky_actions=[text for item in plan.risky_actions if (text := item.strip())],
        version=plan.version,
        planned_steps=[step for step in steps if step.tool or step.target or step.description] or None,
    )


def _trim_criterion(item: Criterion) -> Criterion:
    return Criterion(text=item.text.strip(), check=item.check, target=item.target, expected=item.expected)


def find_defect(plan: Plan, facts: CallFacts) -> str:
    """Return the first reason why the trimmed plan is no plan for this call, "" when it is one."""
    first, steps = plan.first_action, plan.planned_steps or []
    resources = [resource for resource in facts.resources if resource.access.changes] or list(facts.resources)
    checks = (
        ("missing_goal", not plan.goal),
        ("missing_success_criteria", not plan.success_criteria),
        ("missing_first_action_tool", not first.tool),
        ("first_action_tool_mismatch", first.tool.casefold() != facts.call.name.casefold()),
        ("missing_first_action_description", not first.description),
        ("missing_first_action_target", bool(resources) and not first.target),
        (
            "first_action_target_mismatch",
            bool(resources) and not any(is_same_target(first.target, r.kind, r.id) for r in resources),
        ),
        ("missing_verification_requirement", not plan.requires_verification),
        ("missing_risk_acknowledgment", not plan.risky_actions),
        ("missing_plan_version", plan.version <= 0),
        (
            "planned_steps_first_action_mismatch",
            bool(steps) and bool(steps[0].tool) and steps[0].tool.casefold() != first.tool.casefold(),
        ),
        (
            "planned_steps_first_action_target_mismatch",
            bool(steps) and bool(first.target) and steps[0].target != first.target,
        ),
        (
            "planned_steps_incomplete_entry",
            any(not s.tool or not s.description or (s.uses is not None and s.uses < 1) for s in steps),
        ),
    )
    return next((reason for reason, holds in checks if holds), "")


def is_same_target(named: str, kind: ResourceKind, id: str) -> bool:  # noqa: A002
    """Whether a plan's words name exactly this resource; a command may be named by program and leading arguments."""
    if kind in (ResourceKind.FILE, ResourceKind.DIRECTORY):
        return named.removeprefix("./").rstrip("/") == id
    if kind is ResourceKind.PROCESS:
        try:
            wanted, actual = shlex.split(named), shlex.split(id)
        except ValueError:
            return False
        return bool(wanted) and actual[: len(wanted)] == wanted
    return named == id

"""Gate `plan` where the planner sees the call: a risky one needs an accepted plan that covers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from foregate.gates.approval import spare_advice
from foregate.gates.blind_plan import KEY
from foregate.gates.plan import ASKED_ENOUGH, SPARED, PlanGate, describe_plan_found, spare_plan
from foregate.gates.plan_scope import find_covering_items, has_leading_words, list_exact_commands, put_in_force
from foregate.gates.questions import build_planning_need, rule_without_plan
from foregate.schemas.judgement import Answer, Need, Opinion, Ruling, Standing, build_rulings, rule_alike
from foregate.schemas.plan import Plan, PlanInForce, PlannedStep
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import CallFacts, ToolCall
from foregate.schemas.tool_spec import ResourceKind
from foregate.schemas.turn import Turn

_DRIFT = "the accepted plan does not cover this; keep to the plan, or say why it must be widened"
_WIDENED = "the accepted plan does not cover this, and was widened as often as `plan.max_amendments` allows; keep to it"
_NAME_IT = (
    "which do not say what would run; for any further words name the script, module or subcommand, as in "
    "`python3 -m pytest`"
)
_SHOWN = 3  # commands that a sentence names
_LENGTH = 60  # characters it shows of each
Noun = TypeVar("Noun", bound=BaseModel)


class CallPlanGate(PlanGate, frozen=True):
    """Asks the planner for what no plan covers, checks the answer against the call, and binds it as a scope."""

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion | Need:
        spared = {call.id: spare_plan(so_far.facts[call.id]) for call in live}
        due = self.find_due_calls(turn, [so_far.facts[call.id] for call in live if spared[call.id] is None])
        open_, uses = self.find_uncovered_calls(due, turn.plan, turn.during)
        opinion = self.rule_on_uncovered(turn, so_far, due, open_) if open_ else Opinion({})
        if isinstance(opinion, Need):
            return opinion
        held = {call: ruling for call, ruling in spared.items() if ruling is not None}
        rulings = build_rulings(self.name, live, {**held, **opinion.rulings})
        return replace(opinion, rulings=rulings, uses=uses if opinion.plan is None else opinion.uses)

    def rule_on_uncovered(
        self, turn: Turn, so_far: SoFar, due: Sequence[CallFacts], open_: Sequence[CallFacts]
    ) -> Opinion | Need:
        """Return the rulings on the calls no plan covers, or the planner's Need for them."""
        if turn.plan is not None and turn.plan.amendments >= self.policy.plan.max_amendments:
            return Opinion(hold_as_drift(open_, "max_amendments", words=_WIDENED if turn.edition else _DRIFT))
        answers = [answer for answer in turn.find_answers(self.name) if not answer.key.startswith(KEY)]
        if not answers:
            return self.ask_planner(turn, so_far, open_, "")
        plan, error = read_plan(answers[-1]), answers[-1].error
        if plan is None:
            rulings = rule_without_plan(open_, error or "plan_generation_failed", self.policy)
            return Opinion(rulings, detail={"result": "unavailable", "error": error})
        reason = find_defect(plan, open_[0])
        if not reason:
            return self.accept_plan(plan, turn, due, open_)
        if len(answers) == 1:
            return self.ask_planner(turn, so_far, open_, reason)
        message = f"the plan made for this does not fit it ({reason}); reconsider the call, or send a smaller one"
        rejected = Ruling(Standing.HOLD, "plan_rejected", message, reason=reason)
        # an amendment that fails its checks twice is drift of its call only
        rulings = rule_alike(open_, rejected) if turn.plan is None else hold_as_drift(open_, reason)
        return Opinion(rulings, detail=describe_plan_found(plan, "rejected"))

    def find_due_calls(self, turn: Turn, live: Sequence[CallFacts]) -> list[CallFacts]:
        """Return the changes that need a plan: risky ones, and what goes beyond the task's changed resources.

        What works in a sandbox needs none: what it changes is shown before it counts, and can be taken back.
        """
        section, before = self.policy.plan, turn.counters.changes - turn.counters.contained_changes
        if turn.depth > 0 and section.depth == "top_level":
            return []
        begun = turn.plan is not None or (before > 0 and section.due == "first_side_effect")
        if begun and section.binding == "first_action":
            return []
        live = [facts for facts in live if not facts.contained]
        due, touched = [], turn.counters.changed_resources
        first = before == 0 or turn.plan is not None
        for facts in live:
            new = [resource for resource in facts.changed_resources if not resource.changed_before]
            touched += len(new) if facts.changes else 0
            many = bool(new) and 0 < section.changed_resources <= touched
            if facts.changes and (facts.risky or many or (first and section.due == "first_side_effect")):
                due.append(facts)
        return due[:1] if len(due) > 1 and section.binding == "first_action" else due

    def find_uncovered_calls(
        self, due: Sequence[CallFacts], plan: PlanInForce | None, during: str
    ) -> tuple[list[CallFacts], dict[str, tuple[int, ...]]]:
        """Return the calls a plan does not cover, and what the others use of it."""
        left, uses, spent = [], {}, dict[int, int]()
        same_tool = plan is not None and self.policy.plan.binding == "steps"
        for facts in due:
            found = find_covering_items(facts, plan, spent, same_tool=same_tool, during=during) if plan else None
            if found is None:
                left.append(facts)
                continue
            uses[facts.call.id] = found
            for index in found:
                spent[index] = spent.get(index, 0) + 1
        return left, uses

    def ask_planner(self, turn: Turn, so_far: SoFar, open_: Sequence[CallFacts], reason: str) -> Need | Opinion:
        """Return the planner's Need, or the opinion without one when no further question may be asked."""
        if turn.has_asked_enough(self.name, self.policy.limits.needs_per_gate):
            held = Ruling(Standing.HOLD, "plan_unavailable", ASKED_ENOUGH, reason=reason or "needs_per_gate")
            return Opinion(rule_alike(open_, held))
        if 0 < self.policy.safety.model_calls <= turn.counters.safety_calls:
            return Opinion(rule_without_plan(open_, "safety_budget", self.policy))
        if asks := spare_advice(self.name, open_, turn, so_far, self.policy):
            return Opinion(asks, summary=SPARED)
        return build_planning_need(turn, open_, reason)

    def accept_plan(self, plan: Plan, turn: Turn, due: Sequence[CallFacts], open_: Sequence[CallFacts]) -> Opinion:
        """Return the opinion of a plan that fits: what it covers may go on, what it leaves out is held."""
        in_force = put_in_force(plan, open_[0], self.catalogue, turn.plan, self.policy)
        left, uses = self.find_uncovered_calls(due, in_force, turn.during)
        exactly = list_exact_commands(in_force)
        remedy = describe_remedy(exactly)
        message = f"plan v{in_force.revision} accepted: {in_force.goal[:200]}{remedy}"
        accepted = Ruling(Standing.ALLOW, "plan_accepted", message)
        detail = describe_plan_found(plan, "accepted") | {"revision": in_force.revision}
        return Opinion(
            rule_alike(open_, accepted) | hold_as_drift(left, "not_in_plan", remedy),
            detail=detail | ({"exactly": exactly} if exactly else {}),
            plan=in_force,
            first=open_[0].call.id,
            uses=uses,
        )


def hold_as_drift(open_: Sequence[CallFacts], why: str, remedy: str = "", words: str = _DRIFT) -> dict[str, Ruling]:
    return rule_alike(open_, Ruling(Standing.HOLD, "plan_drift", words + remedy, reason=why))


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


def trim_plan(plan: Plan) -> Plan:
    """Return the plan without blanks around its texts and without blank entries; nothing else is changed."""
    steps = [_trim(step, "tool", "target", "description") for step in plan.planned_steps or []]
    return _trim(plan, "goal").model_copy(
        update={
            "success_criteria": [_trim(item, "text") for item in plan.success_criteria if item.text.strip()],
            "first_action": _trim(plan.first_action, "tool", "target", "description"),
            "risky_actions": [text for item in plan.risky_actions if (text := item.strip())],
            "planned_steps": [step for step in steps if step.tool or step.target or step.description] or None,
        }
    )


def _trim(noun: Noun, *names: str) -> Noun:
    return noun.model_copy(update={name: getattr(noun, name).strip() for name in names})


def find_defect(plan: Plan, facts: CallFacts) -> str:
    """Return the first reason why the trimmed plan is no plan for this call, "" when it is one."""
    return next((reason for reason, holds in _DEFECTS.items() if holds(plan, facts, plan.planned_steps or [])), "")


def is_same_target(named: str, kind: ResourceKind, id: str) -> bool:  # noqa: A002
    """Whether a plan's words name exactly this resource; a command may be named by program and leading arguments."""
    named, id = named.strip(), id.strip()  # noqa: A001
    if kind in (ResourceKind.FILE, ResourceKind.DIRECTORY):
        return named.removeprefix("./").rstrip("/") == id
    if kind is ResourceKind.PROCESS:
        return has_leading_words(id, named)
    return named == id


_DEFECTS: Mapping[str, Callable[[Plan, CallFacts, Sequence[PlannedStep]], bool]] = {
    "missing_goal": lambda plan, facts, steps: not plan.goal,
    "missing_success_criteria": lambda plan, facts, steps: not plan.success_criteria,
    "missing_first_action_tool": lambda plan, facts, steps: not plan.first_action.tool,
    "first_action_tool_mismatch": lambda plan, facts, steps: (
        plan.first_action.tool.casefold() != facts.call.name.casefold()
    ),
    "missing_first_action_description": lambda plan, facts, steps: not plan.first_action.description,
    "missing_first_action_target": lambda plan, facts, steps: bool(facts.targets) and not plan.first_action.target,
    "first_action_target_mismatch": lambda plan, facts, steps: (
        bool(facts.targets) and not any(is_same_target(plan.first_action.target, r.kind, r.id) for r in facts.targets)
    ),
    "missing_verification_requirement": lambda plan, facts, steps: not plan.requires_verification,
    "missing_risk_acknowledgment": lambda plan, facts, steps: not plan.risky_actions,
    "missing_plan_version": lambda plan, facts, steps: plan.version <= 0,
    "planned_steps_first_action_mismatch": lambda plan, facts, steps: (
        bool(steps and steps[0].tool) and steps[0].tool.casefold() != plan.first_action.tool.casefold()
    ),
    "planned_steps_first_action_target_mismatch": lambda plan, facts, steps: (
        bool(steps and plan.first_action.target) and steps[0].target != plan.first_action.target
    ),
    "planned_steps_incomplete_entry": lambda plan, facts, steps: any(
        not s.tool or not s.description or (s.uses is not None and s.uses < 1) for s in steps
    ),
}
PLAN_REASONS = tuple(_DEFECTS)
"""Why a plan is rejected, in the order they are checked."""

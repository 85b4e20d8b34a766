"""Whether a plan fits the call it was written for: the checks, in their order."""

from __future__ import annotations

import shlex

from foregate.schemas.plan import Criterion, Plan, PlannedAction, PlannedStep
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import ResourceKind


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

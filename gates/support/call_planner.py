"""A planner that sees the calls: which of them are due, what it is asked, and whether its plan fits the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from msgspec import Struct
from pydantic import BaseModel, ValidationError

from foregate.gates.support.blind_planner import KEY
from foregate.gates.support.plan_scope import has_leading_words, put_in_force
from foregate.gates.support.questions import build_need, describe_call, describe_plan, join_user_words
from foregate.policy.policy import Policy
from foregate.schemas.judgement import Answer, Need, Ruling, Standing, rule_alike
from foregate.schemas.plan import Plan, PlanHead, PlanInForce
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import Catalogue, ResourceKind
from foregate.schemas.turn import Turn

_DRIFT = "the accepted plan does not cover this; keep to the plan, or say why it must be widened"
_WIDENED = "the accepted plan does not cover this, and was widened as often as `plan.max_amendments` allows; keep to it"
_LONG = 4000
Noun = TypeVar("Noun", bound=BaseModel)


class CallPlanner(Struct, frozen=True):
    """Plans each call that is due and no plan covers; its plan is bound as a scope around that call."""

    policy: Policy
    catalogue: Catalogue
    blind: ClassVar[bool] = False
    rejected: ClassVar[str] = "the plan made for this does not fit it ({}); reconsider the call, or send a smaller one"

    def rule_unasked(self, open_: Sequence[CallFacts], turn: Turn) -> dict[str, Ruling] | None:
        """Return the rulings on uncovered calls where the plan was widened as often as may be; None for any other."""
        if turn.plan is None or turn.plan.amendments < self.policy.plan.max_amendments:
            return None
        words = _WIDENED if turn.edition else _DRIFT
        return rule_alike(open_, Ruling(Standing.HOLD, "plan_drift", words, reason="max_amendments"))

    def build_drift(self, reason: str, remedy: str = "") -> Ruling:
        """Return the ruling on a call that the plan does not cover: it is held."""
        return Ruling(Standing.HOLD, "plan_drift", _DRIFT + remedy, reason=reason)

    def find_answers(self, turn: Turn) -> list[Answer]:
        """Return what the planner answered in this turn to requests with the call."""
        return [answer for answer in turn.find_answers("plan") if not answer.key.startswith(KEY)]

    def build_need(self, turn: Turn, calls: Sequence[CallFacts], defect: str = "") -> Need:
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

    def read_answer(self, answer: Answer, facts: CallFacts) -> tuple[Plan, set[str]] | None:
        """Return the trimmed plan of an answer with why it does not fit the call; None when there is no plan in it."""
        if answer.value is None:
            return None
        try:
            plan = trim_plan(Plan.model_validate(answer.value))
        except ValidationError:
            return None
        first, steps, targets = plan.first_action, plan.planned_steps or [], facts.targets
        found = {
            "first_action_tool_mismatch": first.tool.casefold() != facts.call.name.casefold(),
            "missing_first_action_target": bool(targets) and not first.target,
            "first_action_target_mismatch": bool(targets)
            and not any(is_same_target(first.target, r.kind, r.id) for r in targets),
            "planned_steps_first_action_mismatch": bool(steps and steps[0].tool)
            and steps[0].tool.casefold() != first.tool.casefold(),
            "planned_steps_first_action_target_mismatch": bool(steps and first.target)
            and steps[0].target != first.target,
            "planned_steps_incomplete_entry": any(
                not step.tool or not step.description or (step.uses is not None and step.uses < 1) for step in steps
            ),
        }
        return plan, {reason for reason, holds in found.items() if holds}

    def mark_missing(self, before: PlanInForce | None, error: str) -> None:
        """Return None: the planner is asked again for the next call."""

    def put_in_force(self, plan: PlanHead, calls: Sequence[CallFacts], turn: Turn) -> PlanInForce:
        """Return the plan in force once a plan is accepted for the first of the calls."""
        assert isinstance(plan, Plan)
        return put_in_force(plan, calls[0], self.catalogue, turn.plan, self.policy)


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


def is_same_target(named: str, kind: ResourceKind, id: str) -> bool:  # noqa: A002
    """Whether a plan's words name exactly this resource; a command may be named by program and leading arguments."""
    named, id = named.strip(), id.strip()  # noqa: A001
    if kind in (ResourceKind.FILE, ResourceKind.DIRECTORY):
        return named.removeprefix("./").rstrip("/") == id
    if kind is ResourceKind.PROCESS:
        return has_leading_words(id, named)
    return named == id

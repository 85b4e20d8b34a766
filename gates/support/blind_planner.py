"""A planner that sees no call: what it is asked, what it must say, and how its plan comes into force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from foregate.gates.support.plan_scope import find_risk_classes
from foregate.gates.support.questions import build_need, rule_without_plan
from foregate.policy.policy import Policy
from foregate.policy.risk.declared import find_tool_entry
from foregate.policy.risk.pieces import cut_pasted
from foregate.schemas.judgement import Answer, Need, Ruling, Standing, rule_alike
from foregate.schemas.plan import (
    BlindPlan,
    BlindStep,
    BlindTarget,
    Bound,
    Flow,
    PlanHead,
    PlanInForce,
    PlanTerm,
    ScopeItem,
)
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import Catalogue, Effect, ResourceKind, ToolSpec
from foregate.schemas.turn import Turn
from foregate.schemas.value import format_key, read_forms, read_value

KEY = "plan:blind:"
"""How the key of each Need begins that asks for a plan without the call."""
_SHAPE = ("type", "properties", "items", "required", "anyOf", "oneOf", "allOf", "additionalProperties", "format")
"""What the planner reads of the schema of a tool that the operator's own program does not declare."""
_LONG = 32 * 1024


class BlindPlanner(Struct, frozen=True):
    """Plans once per request, from the person's words alone; a step covers the values that these words name."""

    policy: Policy
    catalogue: Catalogue
    blind: ClassVar[bool] = True
    rejected: ClassVar[str] = (
        "the plan made from the person's words is none ({}); say what this is for, and send it again"
    )

    def rule_unasked(self, open_: Sequence[CallFacts], turn: Turn) -> dict[str, Ruling] | None:
        """Return the rulings on uncovered calls where the planner answered for this request already, or is not asked in
        a child task; None where it is to be asked."""
        if turn.plan is not None and turn.plan.missing:
            return rule_without_plan(open_, turn.plan.missing, self.policy)
        asked = turn.depth > 0 or (turn.plan is not None and turn.plan.blind)
        return rule_alike(open_, self.build_drift("not_in_plan")) if asked else None

    def build_drift(self, reason: str, remedy: str = "") -> Ruling:
        """Return the ruling on a call that the plan does not cover: a person is asked."""
        return Ruling(
            Standing.ASK, "plan_drift", f"no plan made from the person's words covers this{remedy}", reason=reason
        )

    def find_answers(self, turn: Turn) -> list[Answer]:
        """Return what the planner answered in this turn without having seen the call."""
        return [answer for answer in turn.find_answers("plan") if answer.key.startswith(KEY)]

    def build_need(self, turn: Turn, calls: Sequence[CallFacts], defect: str = "") -> Need:
        """Return the planner's Need: the person's words, the tools, and what the model said without any outside name.

        Nothing of the pending calls is in the request, nor of what any tool returned. `defect` is what the planner's
        last plan lacks, "" where it made none yet.
        """
        own = [cut_pasted(said.text, self.policy.mandate) for said in turn.user_messages if said.actor == "user"]
        request: dict[str, Json] = {
            "user_words": "\n\n".join(own)[-_LONG:],
            "narration": turn.masked_words,
            "tools": [describe_tool(spec) for spec in self.catalogue.values()],
        }
        answers = self.find_answers(turn)
        if defect:
            request |= {"defect": defect, "rejected": answers[-1].value}
        need = build_need(turn, "plan", "planner", calls, request)
        return replace(need, key=f"{KEY}{len(answers) + 1}")

    def read_answer(self, answer: Answer, facts: CallFacts) -> tuple[BlindPlan, set[str]] | None:
        """Return the plan of an answer with what is wrong with its steps; None when there is no plan in it."""
        try:
            plan = BlindPlan.model_validate(answer.value)
        except ValidationError:
            return None
        tool = plan.planned_steps[0].tool if plan.planned_steps else None
        found = {
            "planned_steps_first_action_mismatch": bool(tool)
            and (tool or "").casefold() != plan.first_action.tool.strip().casefold(),
            "planned_steps_incomplete_entry": any(map(_is_incomplete, plan.planned_steps)),
        }
        return plan, {reason for reason, holds in found.items() if holds}

    def mark_missing(self, before: PlanInForce | None, error: str) -> PlanInForce:
        """Return the plan in force where none could be had, so that the planner is not asked for this request again."""
        return replace(before or PlanInForce(0, "", ()), blind=True, missing=error[:200])

    def put_in_force(self, plan: PlanHead, calls: Sequence[CallFacts], turn: Turn) -> PlanInForce:
        """Return the plan in force once a plan is accepted: its steps beside what was in force before.

        A step whose values earlier calls of the task have used up has so many uses fewer.
        """
        assert isinstance(plan, BlindPlan)
        before = turn.plan or PlanInForce(0, plan.goal.strip(), (), amendments=0)
        revision, items = before.revision + 1, []
        for number, step in enumerate(plan.planned_steps, start=1):
            item = build_planned_item(step, f"plan-v{revision}-step-{number}", self.catalogue, self.policy)
            items += [use_up(item, turn.said_used)] if item is not None else []
        classes = {name for facts in calls for name in find_risk_classes(facts, items)}
        return replace(
            before,
            revision=revision,
            goal=before.goal or plan.goal.strip(),
            items=(*before.items, *items),
            requires_verification=plan.requires_verification or before.requires_verification,
            criteria=(*before.criteria, *plan.success_criteria),
            classes=tuple(sorted({*classes, *before.classes})),
            blind=True,
            flows=tuple(Flow(flow.read.strip(), flow.to.strip()) for flow in plan.flows),
        )


def describe_tool(spec: ToolSpec) -> dict[str, Json]:
    """Return a tool as the planner sees it; of one that others describe only what calls of it look like."""
    if spec.is_own:
        told: dict[str, Json] = {
            "name": spec.name,
            "description": spec.description,
            "parameters": dict(spec.parameters),
        }
    else:
        told = {"name": spec.name, "parameters": strip_schema(spec.parameters)}
    named = {"targets": [target.parameter for target in spec.targets], "amounts": spec.amounts, "texts": spec.texts}
    return {**told, "effect": spec.effect.value, **{role: list(names) for role, names in named.items() if names}}


def strip_schema(schema: Json) -> Json:
    """Return a JSON Schema with names and types alone, without any text that a server wrote for models."""
    if isinstance(schema, list):
        return [strip_schema(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Json] = {}
    for key, inner in schema.items():
        if key == "properties" and isinstance(inner, Mapping):
            found[key] = {name: strip_schema(one) for name, one in inner.items()}
        elif key in _SHAPE:
            found[key] = strip_schema(inner)
    return found


def _is_incomplete(step: BlindStep) -> bool:
    unnamed = not (step.tool or "").strip() and step.effect is None
    aimless = any(not any(map(_says, (one.said, one.read, one.record, one.field))) for one in step.targets)
    unbound = any(not bound.argument.strip() or not _says_bound(bound) for bound in step.bounds)
    return unnamed or not step.description.strip() or (step.uses is not None and step.uses < 1) or aimless or unbound


def _says(text: str | None) -> bool:
    return text is not None and bool(text.strip())


def _says_bound(bound: Bound) -> bool:
    if bound.rule == "free":
        return True
    value = read_value(bound.value)
    return value is not None and (bound.rule != "at_most" or value.kind == "number")


def build_planned_item(step: BlindStep, number: str, catalogue: Catalogue, policy: Policy) -> ScopeItem | None:
    """Return what a step covers, None for one that only looks or whose tool is unknown."""
    tool = (step.tool or "").strip()
    spec = catalogue.get(tool)
    if tool and spec is None:
        return None
    effect = Effect(step.effect) if step.effect is not None else Effect.UNKNOWN
    if step.effect is None and spec is not None:
        entry = find_tool_entry(spec, policy)
        effect = (entry.effect if entry is not None else None) or spec.effect
    if not effect.changes:
        return None
    terms = (*(build_target_term(one, catalogue) for one in step.targets), *map(build_bound_term, step.bounds))
    return ScopeItem(
        effect, ResourceKind.OTHER, step.description.strip(), step.uses or 1, step=number, tool=tool, terms=terms
    )


def build_target_term(target: BlindTarget, catalogue: Catalogue) -> PlanTerm:
    argument = (target.argument or "").strip()
    if target.said:
        return PlanTerm(argument, "said", target.said.strip())
    read = target.read if target.read in catalogue else ""
    record, name = (target.record or "").strip(), (target.field or "").strip()
    return PlanTerm(argument, "found", read=read or "", record=record, field=name)


def build_bound_term(bound: Bound) -> PlanTerm:
    return PlanTerm(bound.argument.strip(), bound.rule, (bound.value or "").strip())


def use_up(item: ScopeItem, said_used: Mapping[str, int]) -> ScopeItem:
    """Return a step without the uses that calls made before the plan have taken of its values.

    What they took of a sum is not known, so that nothing is left of it.
    """
    texts = [term.value for term in item.terms or () if term.rule == "said"]
    used = max((said_used.get(format_key(form), 0) for text in texts for form in read_forms(text)), default=0)
    sums = any(term.rule == "at_most" for term in item.terms or ())
    return replace(item, used=item.uses if used and sums else min(used, item.uses))

"""Tidying a plan as a planner without a strict schema writes it; what is taken away covers nothing."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from foregate.schemas.plan import Criterion, Plan, PlannedAction, PlannedStep
from foregate.schemas.strict_json import Json


def tidy_plan(plan: Mapping[str, Json]) -> dict[str, Json]:
    """Return a plan without keys that nobody asked for and without steps that name no tool.

    The target of the first step is spelled as the first action spells it.
    """
    tidy = _keep_known(plan, Plan)
    if isinstance(action := tidy.get("first_action"), Mapping):
        action = tidy["first_action"] = _keep_known(action, PlannedAction)
    if isinstance(criteria := tidy.get("success_criteria"), list):
        tidy["success_criteria"] = [
            _keep_known(one, Criterion) if isinstance(one, Mapping) else one for one in criteria
        ]
    if isinstance(steps := tidy.get("planned_steps"), list):
        kept = [_keep_known(step, PlannedStep) if isinstance(step, Mapping) else step for step in steps]
        kept = [step for step in kept if not (isinstance(step, dict) and _fold(step, "tool") == "")]
        first = kept[0] if kept else None
        if isinstance(first, dict) and isinstance(action, dict) and _fold(first, "target") == _fold(action, "target"):
            first["target"] = action["target"]
        tidy["planned_steps"] = kept or None
    return tidy


def _keep_known(value: Mapping[str, Json], noun: type[BaseModel]) -> dict[str, Json]:
    return {key: one for key, one in value.items() if key in noun.model_fields}


def _fold(value: Mapping[str, Json], key: str) -> str | None:
    text = value.get(key)
    return text.strip().lower() if isinstance(text, str) else None

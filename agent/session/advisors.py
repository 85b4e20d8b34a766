"""Asking planner and critic: one request each, without tools, answered in strict JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ValidationError

from foregate.agent.session.prompts import CRITIC, PLANNER
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.critique import Critique
from foregate.schemas.errors import InvalidJson, ModelError
from foregate.schemas.judgement import Need
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.model_response import Usage
from foregate.schemas.plan import Plan
from foregate.schemas.protocols import Model
from foregate.schemas.strict_json import Json
from foregate.schemas.strict_schema import strict_schema


@dataclass(frozen=True, slots=True)
class AdvisorAnswer:
    """What came back: a value that fits the schema, or None and why; and what it used."""

    value: Mapping[str, Json] | None
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    text: str = ""


async def ask_advisor(model: Model, need: Need, policy: Policy) -> AdvisorAnswer:
    """Ask the planner or the critic for what a gate must know; a failure is an answer too, never raised."""
    planner = need.who == "planner"
    bound = policy.plan.max_bytes if planner else policy.critique.max_bytes
    noun: type[BaseModel] = Plan if planner else Critique
    name = "pre_execution_plan_v1" if planner else "pre_execution_critique_v1"
    request = ModelRequest(
        [
            Message("system", PLANNER if planner else CRITIC),
            Message("user", strict_json.canonical(need.request).decode()),
        ],
        words_only=True,
        schema_name=name,
        schema=strict_schema(noun),
        purpose="plan" if planner else "critique",
    )
    try:
        response = await model.respond(request)
    except ModelError as error:
        return AdvisorAnswer(None, f"{name.split('_')[2]}_generation_failed: {error}"[:300])
    text = strict_json.scrub(response.text)
    try:
        value: dict[str, Json] = noun.model_validate(strict_json.parse(strip_fence(text))).model_dump(mode="json")
    except (InvalidJson, ValidationError) as error:
        why = str(error) if isinstance(error, InvalidJson) else describe_defect(error)
        return AdvisorAnswer(None, f"{name.split('_')[2]}_generation_failed: {why}"[:300], response.usage, text)
    if len(strict_json.canonical(value)) > bound:
        return AdvisorAnswer(
            None, f"{name.split('_')[2]}_generation_failed: larger than {bound} bytes", response.usage, text
        )
    return AdvisorAnswer(value, "", response.usage, text)


def strip_fence(text: str) -> str:
    """Return what stands in the one code fence an answer may come in."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
        return stripped[stripped.index("\n") : -3]
    return stripped


def describe_defect(error: ValidationError) -> str:
    """Return the first defect of an answer that breaks the schema."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"

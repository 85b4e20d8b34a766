"""The form the planning model answers in once a plan has run: words, or a further plan while one is left."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from foregate.agent.planning.ask.asking import Conclusion
from foregate.agent.planning.format.wire import WirePlan, WireTask, parse_wire_plan
from foregate.agent.session.interaction import strip_fence
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json
from foregate.schemas.strict_schema import strict_schema
from foregate.schemas.task_plan import PlanDefect
from foregate.schemas.tool_spec import Catalogue

NAME = "plan_results_v1"
"""The name the schema travels under."""


_PLAN = tuple(WirePlan.model_fields)
"""The keys of a plan; they stand beside the answer, since endpoints bound how deep a schema nests."""


class WireResults(BaseModel):
    """An answer to the person, or the goal and the tasks of a further plan that is confirmed on its own."""

    answer: str | None
    goal: str | None
    tasks: list[WireTask] | None


class WireLastResults(BaseModel):
    """The answer where no plan is left."""

    answer: str


def build_results_schema(plans_left: int) -> Mapping[str, Json]:
    """Return the JSON Schema of an answer; it offers a plan only while one is left."""
    return strict_schema(WireResults if plans_left else WireLastResults)


def parse_conclusion(text: str, plans_left: int, *, query: str, catalogue: Catalogue) -> Conclusion:
    """Return what an endpoint sent; never raise for what it says."""
    try:
        value = strict_json.parse(strip_fence(text))
    except InvalidJson as error:
        return build_wrong_conclusion("answer", str(error), "send one JSON object of the schema")
    if not isinstance(value, dict) or value.keys() - {"answer", "plan", *_PLAN}:
        return build_wrong_conclusion(
            "answer", "this is no object with an answer or a plan alone", "send one JSON object of the schema"
        )
    answer, plan = value.get("answer"), value.get("plan")
    if value.get("tasks"):
        plan = {key: value[key] for key in _PLAN if key in value}
    if answer is not None and not isinstance(answer, str):
        return build_wrong_conclusion("answer", "it is no text", "write the answer to the person as one text")
    answer = (answer or "").strip()
    if plan is None:
        return (
            Conclusion(answer)
            if answer
            else build_wrong_conclusion("answer", "there is neither answer nor plan", "send one of them")
        )
    if not plans_left:
        return build_wrong_conclusion("plan", "the last plan of this request has run", "answer in words")
    return Conclusion(answer, parse_wire_plan(strict_json.canonical(plan).decode(), query=query, catalogue=catalogue))


def build_wrong_conclusion(field: str, problem: str, remedy: str) -> Conclusion:
    """Return the conclusion of an answer that cannot be used."""
    return Conclusion(defects=(PlanDefect(0, field, problem, remedy),))

"""What becomes of a plan's results: the planning model answers the person, or proposes a further plan."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel

from foregate.agent.loop import runner
from foregate.agent.planning import planner
from foregate.agent.planning.asking import (
    ENDPOINT,
    MODEL,
    RESULTS,
    RESULTS_AGAIN,
    PlanningQuestion,
    ask_model,
    sentence,
)
from foregate.agent.planning.configuration import Configuration, FormattingSection
from foregate.agent.planning.reader import Reading
from foregate.agent.session.compression import format_result
from foregate.agent.session.interaction import strip_fence
from foregate.agent.session.session import Session
from foregate.agent.workspace.cancelled_work import name_canceller
from foregate.evidence.state.conversation import estimate_tokens
from foregate.evidence.state.plan import CallState, PlanState, StepState
from foregate.evidence.state.truncate import truncate_text
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.protocols import Model
from foregate.schemas.strict_json import Json, get_text
from foregate.schemas.strict_schema import strict_schema
from foregate.schemas.task_plan import PlanDefect, PlannedCall, TaskPlan, TaskResult
from foregate.schemas.thoughts import cut_thoughts
from foregate.schemas.tool_call import ToolResult
from foregate.schemas.tool_spec import Catalogue

GATE: Final = "plan_results"
"""Under this name what is asked about a plan's results stands in the log."""
_ENDS = ("completed", "failed", "blocked")
"""Ends of a run the model is told; who cancels, and a limit that is reached, want no further request."""
_SHORTEST = 200
"""Characters of an output that are shown however many there are."""
_BEFORE = 20_000
"""Characters of an unusable answer the model is shown again."""


async def answer_results(
    session: Session,
    state: PlanState,
    configuration: Configuration,
    model: Model,
    report: PlanReport,
    assess: planner.Assess = planner.assess_plan,
) -> PlanReport:
    """Return the report with the model's answer or the further plan it proposed, or why there is neither."""
    if not is_answer_due(session, state, configuration, report):
        return report
    try:
        return await ask_until_usable(session, state, configuration, model, report, assess)
    except asyncio.CancelledError as error:
        session.cancelled = error
        return replace(report, unanswered=f"{name_canceller(session.work, error)} did not wait for the answer")


def is_answer_due(session: Session, state: PlanState, configuration: Configuration, report: PlanReport) -> bool:
    """Whether the model is asked about the results of a run."""
    task = session.state.running_task
    if state.dry_run or report.status not in _ENDS or runner.find_reached_limit(task, session.policy, session.clock):
        return False
    match configuration.planning.answer:
        case "always":
            return True
        case "failed":
            return report.status != "completed"
        case "requested":
            return task.messages[0].text not in ("", planner.FROM_FILE)
        case "never":
            return False


async def ask_until_usable(
    session: Session,
    state: PlanState,
    configuration: Configuration,
    model: Model,
    report: PlanReport,
    assess: planner.Assess = planner.assess_plan,
) -> PlanReport:
    """Ask until an answer can be used, at most `planning.planning_tries` times."""
    left, before = max(0, configuration.planning.max_plans - state.number), ""
    defects: tuple[PlanDefect, ...] = ()
    for number in range(1, configuration.planning.planning_tries + 1):
        request = _build_results_request(session, state, configuration, report, left)
        read = partial(parse_conclusion, left=left, query=get_text(request, "request"), catalogue=session.catalogue)
        if defects:
            request |= {"defects": [strict_json.dump(defect) for defect in defects], "before": before[:_BEFORE]}
        prompt = f"{RESULTS}\n{RESULTS_AGAIN}" if number > 1 else RESULTS
        schema = strict_schema(WireResults if left else WireLastResults)
        question = PlanningQuestion(GATE, number, prompt, request, NAME, schema)
        said, before, _ = await ask_model(session, model, configuration.models.planning, question, read)
        if said.plan is None and not said.defects:
            return replace(report, answer=said.answer)
        planning = assess(session, said, configuration, number)
        if planning.plan is not None and planning.plan.digest == state.digest:
            again = PlanDefect(0, "plan", "this very plan has run", "plan only what is left, or answer in words")
            planning = planner.Planning(None, (again,))
        if planning.plan is not None:
            await planner.record_proposal(
                session, planning.plan, configuration, notes=planning.notes, number=state.number + 1
            )
            return replace(report, answer=said.answer, further=planning.plan)
        defects = planning.defects
        if any(defect.field in (MODEL, ENDPOINT) for defect in defects):
            break
    return replace(report, unanswered=f"the model gave no usable answer ({sentence(defects[0])[:300]})")


def _build_results_request(
    session: Session, state: PlanState, configuration: Configuration, report: PlanReport, left: int
) -> dict[str, Json]:
    task = session.state.running_task
    said = [message.text for message in task.messages if message.text != planner.FROM_FILE]
    most = count_room(state, configuration)
    request: dict[str, Json] = {
        "request": "\n".join(said),
        "goal": state.current_plan.goal,
        "status": report.status,
        "reason": report.reason,
        "results": [_describe_task_result(session, step, most) for step in state.steps.values()],
        "plans_left": left,
    }
    if left:
        request["tools"] = planner.describe_tools(session)
    return request


def count_room(state: PlanState, configuration: Configuration) -> int:
    """Return how many characters one output may take, so that all of them stay within `context.max_tokens`."""
    outputs = [call.text for step in state.steps.values() for call in step.calls if call.text]
    shaped, bound = configuration.formatting, configuration.context.max_tokens
    most = shaped.max_content_length if shaped.truncate_large_outputs else max(map(len, outputs), default=0)
    while most > _SHORTEST and sum(estimate_tokens(text[:most]) for text in outputs) > bound:
        most = max(_SHORTEST, most // 2)
    return max(most, 1)


def _describe_task_result(session: Session, step: StepState, most: int) -> Json:
    task = step.task
    body: dict[str, Json] = {
        "task": task.id,
        "asked": task.reason or f"{task.action} {task.target}".strip(),
        "status": step.status,
        "calls": [describe_call_result(session, call, task.calls, most) for call in step.calls],
    }
    if step.words.strip():
        body["words"] = truncate_text(step.words, most)[0]
    if step.reason and step.status != "done":
        body["why"] = step.reason
    return body


def describe_call_result(session: Session, call: CallState, planned: tuple[PlannedCall, ...], most: int) -> Json:
    """Return the outcome of a call: its output as text by the kind of its tool, or why it has no output."""
    body: dict[str, Json] = {"tool": call.tool, "target": call.target, "status": call.status}
    if 0 <= call.position < len(planned):
        arguments = strict_json.canonical(dict(planned[call.position].arguments)).decode()
        body["arguments"] = truncate_text(arguments, most)[0]
    spec = session.catalogue.get(call.tool)
    if spec is not None and call.status in ("done", "failed"):
        gave = ToolResult(call.status == "done", call.text, error=call.code, exit_code=call.exit_code)
        body["result"] = format_result(spec, call.target, gave, most)
    if call.why:
        body["error"] = call.why
    return body


NAME = "plan_results_v1"
"""The name the schema travels under."""


_PLAN = tuple(planner.WirePlan.model_fields)
"""The keys of a plan; they stand beside the answer, since endpoints bound how deep a schema nests."""


class WireResults(BaseModel):
    """An answer to the person, or the goal and the tasks of a further plan that is confirmed on its own."""

    answer: str | None
    goal: str | None
    tasks: list[planner.WireTask] | None


class WireLastResults(BaseModel):
    """The answer where no plan is left."""

    answer: str


def parse_conclusion(text: str, *, left: int, query: str, catalogue: Catalogue) -> Reading:
    """Return what an endpoint sent while so many plans are `left`; never raise for what it says."""
    remedy = "send one JSON object of the schema"
    try:
        value = strict_json.parse(strip_fence(cut_thoughts(text)))
    except InvalidJson as error:
        return _say_wrong("answer", str(error), remedy)
    if not isinstance(value, dict) or value.keys() - {"answer", "plan", *_PLAN}:
        return _say_wrong("answer", "this is no object with an answer or a plan alone", remedy)
    answer, plan = "" if value.get("answer") is None else value["answer"], value.get("plan")
    if value.get("tasks"):
        plan = {key: value[key] for key in _PLAN if key in value}
    if not isinstance(answer, str):
        return _say_wrong("answer", "it is no text", "write the answer to the person as one text")
    answer = answer.strip()
    if plan is None and not answer:
        return _say_wrong("answer", "there is neither answer nor plan", "send one of them")
    if plan is None:
        return Reading(None, answer=answer)
    if not left:
        return _say_wrong("plan", "the last plan of this request has run", "answer in words")
    found = planner.parse_wire_plan(strict_json.canonical(plan).decode(), query=query, catalogue=catalogue)
    return replace(found, answer=answer)


def _say_wrong(field: str, problem: str, remedy: str) -> Reading:
    return Reading(None, (), (PlanDefect(0, field, problem, remedy),))


class PlanReport(Struct, frozen=True):
    """`status` is completed, failed, blocked, cancelled, budget_exhausted, or a pause: paused, needs_input,
    awaiting_approval. `reason` says what ended or paused the plan; `duration_ms` is in milliseconds.

    `answer` is what the planning model said to the results, `unanswered` why it said nothing that could be used.
    `further` is the plan it proposed next, which no one has confirmed yet.
    """

    status: str
    plan: TaskPlan
    tasks: tuple[TaskResult, ...]
    reason: str = ""
    duration_ms: int = 0
    session: str = ""
    dry_run: bool = False
    answer: str = ""
    unanswered: str = ""
    further: TaskPlan | None = None

    @property
    def is_paused(self) -> bool:
        """Whether `resume` continues the plan."""
        return self.status in ("paused", "needs_input", "awaiting_approval")


def build_report(state: PlanState, formatting: FormattingSection, status: str, reason: str = "") -> PlanReport:
    """Return the report of a plan that stands as `state` says, its outputs and thoughts as `formatting` wants them."""
    results = tuple(_shape_result(step.result, formatting) for step in state.steps.values())
    worked = sum(result.duration_ms for result in results)
    return PlanReport(status, state.current_plan, results, reason, worked, state.session, state.dry_run)


def _shape_result(result: TaskResult, formatting: FormattingSection) -> TaskResult:
    responses = tuple(replace(response, data=formatting.cut(response.data)) for response in result.responses)
    return replace(result, responses=responses, reasoning=result.reasoning if formatting.include_reasoning else "")


def render_summary(report: PlanReport) -> str:
    """Return the report as the text the session's task ends with."""
    told = ", ".join(f"{count} {status}" for status, count in Counter(task.status for task in report.tasks).items())
    return " ".join(filter(None, (f"Plan `{report.plan.goal[:200]}`: {told}.", report.reason, report.unanswered)))

"""Asking a planning model for a plan, again with what was wrong, then in a simpler form; every request is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel

from foregate.agent.loop.internal_calls import run_observation
from foregate.agent.planning import asking
from foregate.agent.planning.configuration import Configuration, record_configuration
from foregate.agent.planning.reader import Reading, add_own_id, read_plan
from foregate.agent.planning.validator import validate_reading
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.evidence.state.truncate import truncate_text
from foregate.schemas import strict_json
from foregate.schemas.event import Actor, Draft, ModelResponded
from foregate.schemas.event_body import CallAnswered, TaskStarted, ToolFinished, UserMessage
from foregate.schemas.protocols import Model
from foregate.schemas.strict_json import Json, scrub
from foregate.schemas.strict_schema import strict_schema
from foregate.schemas.task_plan import PlanDefect, PlanProposed, TaskPlan
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Catalogue

GATE: Final = "task_plan"
"""Under this name the requests for a plan stand in the log."""
_LISTING = "list_files"
_LONGEST = 20_000
"""Characters of an earlier answer, and of the workspace's listing, the planner is shown again."""
_MOST_DEFECTS = 50
"""Defects the planner is told of at once."""
NAME = "task_plan_v1"
"""The name the schema travels under."""
_NEWEST = 12
"""Outputs, changes and held calls that are told, the newest of each."""
FROM_FILE = "Carry out the plan I confirm."
"""What the person says who runs a plan from a file: nothing in the file counts as their words."""


class Planning(Struct, frozen=True):
    """What asking for a plan for `query` gave: the plan, or None and what is wrong; `tries` counts the requests."""

    plan: TaskPlan | None
    defects: tuple[PlanDefect, ...] = ()
    warnings: tuple[PlanDefect, ...] = ()
    notes: tuple[str, ...] = ()
    tries: int = 0
    query: str = ""

    @property
    def unreachable(self) -> str:
        """Why no model answered, however often it was asked, "" where one did."""
        return next((defect.problem for defect in self.defects if defect.field == asking.ENDPOINT), "")

    @property
    def question(self) -> str:
        """What the person is asked where there is no plan: what was wrong, and how to word the request; else ""."""
        if self.plan is not None or self.unreachable:
            return ""
        wrong = "; ".join(dict.fromkeys(asking.sentence(defect) for defect in self.defects[:3]))
        more = f"; and {len(self.defects) - 3} more" if len(self.defects) > 3 else ""
        return f"I could not make a plan of this ({wrong}{more}). {asking.suggest_rewording(self.query, self.defects)}"


Assess = Callable[[Session, Reading, Configuration, int], Planning]
"""Says what is to be thought of a plan that was read, after so many requests."""


async def make_plan(
    session: Session, query: str, model: Model, configuration: Configuration, assess: Assess | None = None
) -> Planning:
    """Hear what the person says, and propose the first sound plan for it.

    The session's task ends with the proposal; without a sound plan it pauses with a question to the person, whose next
    message is another query. Where no model answers it fails.
    """
    await session.record_message(query)
    planning = await propose_plan(session, query, model, configuration, assess=assess)
    if planning.plan is None:
        await end_unplanned(session, planning)
    else:
        count = len(planning.plan.tasks)
        await session.end_task("completed", f"A plan of {count} task{'s' if count != 1 else ''}: {planning.plan.goal}")
    return planning


async def end_unplanned(session: Session, planning: Planning) -> RunResult:
    """Pause the task with the question to the person, or end it where no model answered."""
    if planning.unreachable:
        return await session.end_task("failed", blocker=planning.unreachable, need="a model that answers")
    return await session.pause(RunResult("needs_input", planning.question))


async def propose_plan(
    session: Session,
    query: str,
    model: Model,
    configuration: Configuration,
    already: Json = None,
    assess: Assess | None = None,
) -> Planning:
    """Ask for a plan, the last time in a simpler form, and propose the first sound one; `already` is what was done."""
    assess = assess or assess_plan
    files, bounds = await list_workspace(session), configuration.planning
    planning, before, tries = Planning(None), "", bounds.planning_tries
    for number in range(1, tries + 1):
        request: dict[str, Json] = {
            "request": query,
            "tasks": {"min": bounds.min_tasks, "max": bounds.max_tasks_asked},
            "tools": describe_tools(session),
            "workspace": files,
        }
        if told := [strict_json.dump(defect) for defect in planning.defects if defect.field != asking.MODEL]:
            request |= {"defects": told[:_MOST_DEFECTS], "before": before[:_LONGEST]}
        if already:
            request["already"] = already
        question = asking.PlanningQuestion(
            GATE, number, f"{asking.PLANNER}\n{asking.PLANNER_AGAIN}" if told else asking.PLANNER, request
        )
        if simpler := 1 < number == tries:
            question = replace(question, prompt=asking.SIMPLER)
        else:
            question = replace(question, schema_name=NAME, schema=strict_schema(WirePlan))
        read = partial(read_plan if simpler else parse_wire_plan, query=query, catalogue=session.catalogue)
        reading, before, notes = await asking.ask_model(session, model, configuration.models.planning, question, read)
        reading = replace(reading, notes=(*reading.notes, *notes))
        planning = replace(assess(session, reading, configuration, number), query=query)
        if planning.plan is not None:
            await record_proposal(session, planning.plan, configuration, notes=planning.notes)
            break
        if planning.unreachable:
            break
    return planning


def assess_plan(session: Session, reading: Reading, configuration: Configuration, tries: int) -> Planning:
    """Return the plan a text held, or everything that is wrong with it."""
    if reading.plan is None:
        return Planning(None, reading.defects, (), reading.notes, tries)
    found = validate_reading(reading, reading.plan, session.catalogue, session.workspace, configuration)
    return Planning(found.plan if found.is_sound else None, found.defects, found.warnings, found.notes, tries)


async def list_workspace(session: Session) -> str:
    """Return what the workspace holds, looked at by a judged call as any other, "" where that is not to be had."""
    if _LISTING not in session.catalogue:
        return ""
    call = ToolCall.of(_LISTING, {"path": ".", "recursive": True}, id=f"p{session.state.seq}.1")
    result = await run_observation(session, call, "runner", session.state.seq)
    return strict_json.scrub(result.content)[:_LONGEST] if result is not None and result.ok else ""


def describe_tools(session: Session) -> list[Json]:
    """Return what a planner is told of each tool."""
    return [
        {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
        for spec in session.catalogue.values()
    ]


async def record_proposal(
    session: Session,
    plan: TaskPlan,
    configuration: Configuration,
    *,
    actor: Actor = "planner",
    notes: Sequence[str] = (),
    number: int = 1,
) -> None:
    """Record a plan, the how-manieth for its request; nothing of it runs before it is confirmed."""
    kept = record_configuration(configuration)
    proposed = PlanProposed(proposal=plan, digest=plan.digest, number=number, notes=tuple(notes), configuration=kept)
    await session.record(Draft(proposed, actor))
    await session.log.settle()


async def collect_prior_work(session: Session, configuration: Configuration) -> Json:
    """Return what the open task did so far, None where it did nothing."""
    most = configuration.formatting.max_content_length
    calls: dict[str, dict[str, Json]] = {}
    said, looked, done, held = list[Json](), list[Json](), list[Json](), list[Json]()
    for event in await session.log.read():
        match event.body:
            case TaskStarted():
                calls, said, looked, done, held = {}, [], [], [], []
            case UserMessage(text=text):
                said.append(text)
            case ModelResponded(calls=made):
                for one in made:
                    calls[one.id] = {"tool": one.name, "arguments": truncate_text(one.arguments, most)[0]}
            case ToolFinished(call=call, ok=True) as body if call in calls:
                spec = session.catalogue.get(body.tool)
                if body.changes or spec is None or spec.effect.changes:
                    done.append(calls[call])
                else:
                    looked.append({**calls[call], "output": truncate_text(body.content, most)[0]})
            case CallAnswered(call=call, code="plan_required") if call in calls:
                held.append(calls[call])
            case _:
                pass
    told = {"said_before": said[:-1], "looked_at": looked[-_NEWEST:], "done": done[-_NEWEST:], "held": held[-_NEWEST:]}
    return {name: entries for name, entries in told.items() if entries} or None


class WireCall(BaseModel):
    """A call; `arguments` is an object as JSON text."""

    tool: str
    arguments: str
    description: str | None


class WireTask(BaseModel):
    """A task; `params` and `when` are objects as JSON text."""

    id: int
    action: str | None
    target: str | None
    reason: str
    expected_outcome: str | None
    depends_on: list[int]
    params: str | None
    calls: list[WireCall] | None
    when: str | None
    may_fail: bool | None


class WirePlan(BaseModel):
    """A plan; `metadata` is an object as JSON text, `estimated_duration` in seconds.

    What has no fixed keys (`arguments`, `params`, `metadata`, `when`) travels as JSON text.
    """

    goal: str
    tasks: list[WireTask]
    estimated_duration: int | None
    requires_confirmation: bool
    metadata: str | None


def parse_wire_plan(text: str, *, query: str = "", catalogue: Catalogue | None = None) -> Reading:
    """Return the plan an endpoint sent, read as `reader.read` reads it; never raise for what it says.

    The id and the query are never the model's: the query is `query`, and the id is made of the plan's content.
    """
    reading = read_plan(text, query=query, catalogue=catalogue)
    if reading.plan is None:
        return reading
    return replace(reading, plan=add_own_id(replace(reading.plan, query=scrub(query))))

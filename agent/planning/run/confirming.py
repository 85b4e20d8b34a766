"""Putting a plan, or its next task, before a person: as a need, recorded like every other."""

from __future__ import annotations

from msgspec.structs import replace

from foregate.agent.planning.ask.asking import sentence
from foregate.agent.planning.ask.planner import GATE, Planning
from foregate.agent.planning.format.configuration import Configuration
from foregate.agent.planning.run.outlook import CallPreview, PlanPreview
from foregate.agent.session.session import Session
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas import strict_json
from foregate.schemas.event import Draft, NeedAnswered, NeedRaised
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import FAILURE_CHOICES, FailureChoice, PlanTask


def should_confirm(configuration: Configuration, state: PlanState, looked: PlanPreview) -> bool:
    """Whether a person must confirm the plan; one that says of itself that it needs none is believed if harmless.

    A further plan always needs a yes of its own.
    """
    wanted = {"always": True, "dangerous": False, "as_planned": state.current_plan.requires_confirmation}
    return state.number > 1 or looked.is_dangerous or wanted[configuration.execution.confirmation]


def build_plan_need(state: PlanState, looked: PlanPreview, edited: Planning, *, most: int = 1, uses: int = 0) -> Need:
    """Return the question whether a plan may run; `edited` is what was found about what the person made of it.

    `most` is how many plans one request may have, `uses` how often a yes lets a filled-in task change its target. To
    `edit` belongs the text of the plan as it should be.
    """
    request: dict[str, Json] = {
        "question": f"Run this plan of {len(state.steps)} tasks?",
        "answers": ["yes", "step", "edit", "no"],
        "plan": strict_json.dump(state.current_plan),
        "digest": state.digest,
        "number": state.number,
        "most": most,
        "uses": uses,
        "calls": [describe_call(call) for call in looked.calls],
        "open_tasks": [task.id for task in looked.open_tasks],
    }
    for name, found in (("defects", edited.defects), ("warnings", edited.warnings)):
        if found:
            request[name] = [sentence(one) for one in found]
    return Need(GATE, "person", f"confirm:{state.number}", (), (state.digest,), request)


def build_task_need(state: PlanState, task: PlanTask, looked: PlanPreview) -> Need:
    """Return the question whether the next task of a plan may run."""
    request: dict[str, Json] = {
        "question": f"Run task {task.id}?",
        "answers": ["yes", "no"],
        "task": strict_json.dump(task),
        "calls": [describe_call(call) for call in looked.of(task.id)],
    }
    return Need(GATE, "person", f"task:{task.id}", (), (state.digest,), request)


def failure_choices(step: StepState) -> list[FailureChoice]:
    """Return what may be chosen after a failure: no retry while nobody knows whether a call took effect."""
    return [choice for choice in FAILURE_CHOICES if choice != "retry" or not step.unknown_call]


def build_failure_need(state: PlanState, step: StepState) -> Need:
    """Return the question how a plan goes on after a failure it asks about."""
    request: dict[str, Json] = {
        "question": f"Task {step.task.id} failed: {step.reason}. How to go on?",
        "answers": list(failure_choices(step)),
        "failed": step.task.id,
    }
    return Need(GATE, "person", f"failure:{step.task.id}", (), (state.digest,), request)


def describe_call(call: CallPreview) -> Json:
    """Return what a person must know of a planned call before saying yes."""
    facts = call.facts
    return {
        "task": call.task,
        "tool": call.planned.tool,
        "target": facts.target,
        "arguments": dict(call.planned.arguments),
        "effect": facts.effect.value,
        "irreversible": facts.changes and facts.irreversible,
        "dangers": list(call.dangers),
    }


async def ask_and_record(session: Session, need: Need) -> Reply | None:
    """Ask the person and record the answer; None where nobody is here, or they do not answer now: it stays open."""
    if session.person is None:
        return None
    stored = session.blobs.put(strict_json.canonical(need.request))
    raised = NeedRaised(need=replace(need, request={}), request=stored, survey_hash="")
    await session.record(Draft(raised, "foregate"))
    await session.log.settle()
    reply = await session.person.answer(need)
    if reply is None:
        return None
    value = {"choice": reply.choice, "by": reply.by, "text": strict_json.scrub(reply.text)}
    policy, now = session.policy.hash, session.clock()
    answer = Answer(need.gate, "person", need.key, need.digests, "", policy, value, "", now)
    await session.record(Draft(NeedAnswered(answer=answer), "person"))
    return reply

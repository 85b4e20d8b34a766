"""Recording what a model said, and the further stages of a response whose calls name results of earlier ones."""

from __future__ import annotations

from msgspec.structs import replace

from foregate.agent.loop.dispatch import answer_remaining
from foregate.agent.loop.run_call import draft_answer
from foregate.agent.session.session import Session
from foregate.evidence.state.dataflow import Dataflow
from foregate.evidence.state.task import TaskState
from foregate.schemas.codes import NotRunCode
from foregate.schemas.event import Continuation, Draft, ModelResponded
from foregate.schemas.model_response import ModelResponse


async def record_response(session: Session, response: ModelResponse) -> None:
    """Record a response, of which only the calls that can be judged now are its own; the others follow in stages."""
    seq = session.state.seq + 1
    stamped = response.stamp_calls(seq)
    program = Dataflow.of(stamped, seq)
    if program is None:
        await session.record(Draft(ModelResponded.of(stamped), "model"))
        return
    places = program.find_next_stage(session.policy.limits.calls_per_response).places
    first = program.build_response(places)
    first = replace(
        first,
        text=stamped.text,
        reasoning=stamped.reasoning,
        model=stamped.model,
        notes=stamped.notes,
        usage=stamped.usage,
        finish_reason=stamped.finish_reason,
    )
    await session.record(Draft(ModelResponded.of(first, program=program.to_record(places)), "model"))


async def record_next_stage(session: Session) -> None:
    """Record the calls of the response in hand that can go now, or answer those that never will.

    What is recorded follows from the log alone, so a process that ended in between is gone on from.
    """
    program, task = session.state.program, session.state.task
    assert program is not None
    assert task is not None
    if reason := reason_to_stop_stages(task):
        await answer_remaining(session, *reason)
        return
    stage = program.find_next_stage(session.policy.limits.calls_per_response)
    if stage.dead:
        # what is too many is not even looked at
        looked = tuple(program.calls[at] for at, (code, _) in stage.dead.items() if code != "not_run_too_many")
        facts = session.turns.build_own_turn(program.seq, looked, "model", program.seq).facts
        dead = [(program.calls[at], code, message) for at, (code, message) in stage.dead.items()]
        await session.record(*(draft_answer(call, facts.get(call.id), code, why) for call, code, why in dead))
        return
    continues = Continuation(response=program.seq, places=tuple(stage.places))
    body = ModelResponded.of(program.build_response(stage.places), continues=continues)
    await session.record(Draft(body, "foregate"))


def reason_to_stop_stages(task: TaskState) -> tuple[NotRunCode, str] | None:
    """Return code and message for the rest of a response whose last stage ended in something else, None else."""
    choice, _ = task.after_turn
    if task.question or task.words_only or task.words_only_task:
        return "not_asked_now", "something else of the response must be settled first; then send this one again"
    if choice in ("stop", "more") or (task.stuck and not choice):
        return "not_run_cancelled", "the response was stopped before this one; send it again if it is still wanted"
    return None

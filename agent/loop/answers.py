"""Answers to calls that did not run, and the end of a task that is cancelled."""

from __future__ import annotations

from typing import Any

from foregate.agent.loop.machine_runner import MachineRunner
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.agent.session.stopping import PERSON
from foregate.agent.session.turn_builder import Facts
from foregate.schemas.event import Draft
from foregate.schemas.event_body import AnswerCode, CallAnswered
from foregate.schemas.judgement import Standing
from foregate.schemas.sandbox import SandboxedChanges
from foregate.schemas.tool_call import CallFacts, ToolCall


async def cancel_open_task(session: Session, who: str = PERSON) -> RunResult:
    """End the task in hand because somebody cancelled it; every call of it is answered."""
    why = f"{who} cancelled"
    if session.plan_driver is not None and (ended := await session.plan_driver.cancel(why)) is not None:
        return ended
    facts = session.turns.compute_open_facts()
    await answer_remaining(session, "not_run_cancelled", f"cancelled by {who}", facts)
    return await session.end_task("cancelled", blocker=why)


async def answer_remaining(
    session: Session, code: AnswerCode, message: str, facts: Facts | None = None, *, stages: bool = True
) -> None:
    """Answer every call in hand that has no answer, those of further `stages` too; one ruled out as what it is.

    What a sandbox holds of one of them is thrown away.
    """
    open_turn, program = session.state.open, session.state.program
    if open_turn is not None and open_turn.sandbox is not None:
        await MachineRunner.of(session).discard(SandboxedChanges(upper=open_turn.sandbox.body.upper))
    judgement = open_turn.judgement if open_turn is not None else None
    ruled_out = {v.call: v for v in judgement.verdicts if v.standing is not Standing.ALLOW} if judgement else {}
    left = list(open_turn.unanswered.values()) if open_turn is not None else []
    if stages and program is not None:
        left += [program.calls[place] for place in program.find_waiting()]
    for call in left:
        verdict, known = ruled_out.get(call.id), (facts or {}).get(call.id)
        if verdict is None:
            await session.record(draft_answer(call, known, code, message))
        else:
            ruling = verdict.ruling
            await session.record(draft_answer(call, known, ruling.code, ruling.message, ruling=verdict.standing.value))


def draft_answer(call: ToolCall, facts: CallFacts | None, code: AnswerCode, message: str, **more: Any) -> Draft:
    """Return the answer to a call that did not run, surveyed or not; `more` are further fields of CallAnswered."""
    target, change = (facts.target, facts.changes) if facts else ("", False)
    more = {"ruling": "not_run", "target": target, "change": change, **more}
    return Draft(CallAnswered(call=call.id, tool=call.name[:128], code=code, message=message, **more), "foregate")

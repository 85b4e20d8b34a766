"""Giving up the task in hand, by whoever cancels it or in a person's words, and answering calls that did not run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from foregate.agent.loop.machine_runner import MachineRunner
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.agent.session.turn_builder import Facts
from foregate.agent.workspace.cancelled_work import PERSON, Stopped, name_canceller, wait_until_over
from foregate.schemas.errors import RuntimeLost, UsageError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import AnswerCode, CallAnswered
from foregate.schemas.judgement import Standing
from foregate.schemas.sandbox import SandboxedChanges
from foregate.schemas.tool_call import CallFacts, ToolCall

GIVEN_UP = "what waited for your answer is given up, and nothing of it ran"
"""What a person is told whose message came while a question was open."""


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


async def finish_steps(session: Session, steps: Coroutine[None, None, RunResult]) -> RunResult:
    """Return what steps come to; cancelled, they end their task, and the log says who cancelled.

    CancelledError then goes on, but for a person's cancel at its goal: the session they gave up, or the task that asks.
    """
    is_first = session.work is None
    if is_first:
        session.work, session.cancelled = asyncio.current_task(), None
    try:
        try:
            outcome = await steps
        except asyncio.CancelledError as error:
            session.cancelled = error
            outcome = await _end_cancelled(session, name_canceller(session.work, error))
        cancel = session.cancelled
        stops = cancel is None or (is_first and name_canceller(session.work, cancel) == PERSON)
        if cancel is None or stops or isinstance(cancel, Stopped):
            return outcome
        raise cancel
    finally:
        if is_first:
            session.work = None


async def _end_cancelled(session: Session, who: str) -> RunResult:
    """End the task that was cancelled, if it is still open; a further cancel waits until that is over."""
    if session.state.task is None:
        return session.outcome
    ending = asyncio.ensure_future(cancel_open_task(session, who))
    await wait_until_over(ending)
    return ending.result()


def refuse_while_asking(session: Session) -> None:
    """Raise UsageError where the open task waits for a person's answer, or has one and was not resumed."""
    if not session.state.waits_for_person:
        return
    asked, name = session.state.question, session.name
    give_up = "or give its task up (`Agent.cancel`, /cancel in a chat)"
    if asked is None and session.state.running_task.paused != "awaiting_approval":
        ways = f"resume it (`Agent.go_on`, `foregate resume {name}`), {give_up}"
        raise UsageError(f"what session `{name}` asked has been answered; {ways}")
    named = f"{name}:{asked.seq}" if asked is not None else name
    ways = f"answer it (`Agent.answer`, `foregate approvals approve {named}`), {give_up}"
    raise UsageError(f"the question `{named}` is open, and no message answers it; {ways}")


async def turn_elsewhere(session: Session) -> None:
    """End the task in hand because the person has turned to something else, said in so many words.

    Each call is answered, and a question is open no more. Raises UsageError where no task is open.
    """
    open_turn = session.state.open
    if session.state.task is None:
        raise UsageError("no task is open here that could be given up")
    facts: Facts = {}
    if open_turn is not None and open_turn.response.calls and open_turn.judgement is None:
        with suppress(RuntimeLost):
            await session.tools.refresh(open_turn.response.calls)
        facts = session.turns.build_turn(open_turn).facts
    await answer_remaining(session, "not_run_cancelled", "the person turned to something else", facts)
    await session.end_task("cancelled", blocker="another message came instead")


async def cancel_task(session: Session) -> RunResult:
    """End the task in hand because the person gives it up. Raises UsageError where no task is open."""
    if session.state.task is None:
        raise UsageError("no task is open here, so there is nothing to cancel")
    return await cancel_open_task(session)

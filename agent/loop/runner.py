"""The loop: ask the model, survey, judge, get what the judge needs, do what may be done, until there is an answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from foregate.agent.effects.executor import RUNTIME_LOST
from foregate.agent.effects.reconcile import hear_from_there
from foregate.agent.loop import budget
from foregate.agent.loop.dispatch import carry_out, give_up
from foregate.agent.loop.prefetch import EarlyLooks
from foregate.agent.loop.stages import next_stage, said
from foregate.agent.loop.verification import remark, verify
from foregate.agent.session.compression import compressed
from foregate.agent.session.result import Outcome
from foregate.agent.session.session import Session
from foregate.evidence.state.task import OpenTurn, TaskState
from foregate.gates.prelude import judge
from foregate.schemas.errors import ModelError, RuntimeLost
from foregate.schemas.event import Draft
from foregate.schemas.judgement import Judgement
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.need import Need
from foregate.schemas.task_events import Report
from foregate.telemetry.diagnostics import diagnostics

_TRUNCATED = "the response was cut off; send the calls again, shorter"


async def run(session: Session, text: str) -> Outcome:
    """Take a message through to an answer, a pause or an end. Cancelling leaves every call answered.

    A message while a question to the person is open answers that question with no, and starts a new task.
    """
    if session.state.task is not None and session.state.task.paused != "needs_input":
        await set_aside(session)
    await session.hear(text)
    return await go_on(session)


async def go_on(session: Session) -> Outcome:
    """Take steps until one has an outcome. A task that carries out a plan is not gone on with by asking the model."""
    task, desk = session.state.task, session.desk
    try:
        if task is not None and (task.running_plan or task.proposed_plan):
            return await desk.go_on() if desk is not None else elsewhere(session, task)
        while (outcome := await step(session)) is None:  # noqa: ASYNC110 - it works, it does not poll
            await asyncio.sleep(0)  # lets a cancel and whoever follows the events in between two steps
        return outcome
    except asyncio.CancelledError:
        await give_up(session, "not_run_cancelled", "cancelled by the person")
        return await session.end("cancelled", blocker="the person cancelled")


def elsewhere(session: Session, task: TaskState) -> Outcome:
    """Return the outcome of a task whose plan nobody here can go on with."""
    name = session.lease.session
    why = f"a plan waits for a yes; `foregate execute {name}` asks for it"
    if task.running_plan:
        why = f"a plan is under way here; `foregate plans resume {name}` goes on with it"
    return Outcome("paused", why, Report(blocker=why))


async def set_aside(session: Session) -> None:
    """End the task in hand because the person has turned to something else: what waits for a yes gets a no."""
    open_turn = session.state.open
    if open_turn is not None and open_turn.response.calls and open_turn.judgement is None:
        with suppress(RuntimeLost):
            await session.look_ahead(open_turn.response.calls)
        turn = session.turn(open_turn)
        session.facts = session.prelude.facts(turn)
        if open_turn.need is not None and open_turn.need.need.who == "person":
            value = {"choice": "no", "text": "another message came instead", "by": "person"}
            await session.answered(open_turn.need.need, turn, value)
            turn = session.turn(open_turn)
            judgement = judge(turn, session.prelude, session.facts)
            if isinstance(judgement, Judgement):
                await session.record(session.judged(turn, judgement))
    await give_up(session, "not_run_cancelled", "the person turned to something else")
    await session.end("cancelled", blocker="another message came instead")


async def step(session: Session) -> Outcome | None:
    """Take the one step the state asks for; the state is a fold over the log, so this is also how to resume."""
    open_turn = session.state.open
    if open_turn is None:
        if session.state.program is not None:
            await next_stage(session)
            return None
        return await between_turns(session) or await ask_model(session)
    if not open_turn.response.calls:
        return await answer(session, open_turn)
    if open_turn.response.finish_reason == "length":
        await give_up(session, "not_run_truncated", _TRUNCATED)
        return None
    if open_turn.judgement is None:
        return await decide(session, open_turn)
    return await carry_out(session, open_turn)


async def ask_model(session: Session) -> Outcome | None:
    """Ask the model with everything said so far, and record what it says."""
    task = session.state.task
    assert task is not None
    await session.catch_up()
    words_only = task.words_only or task.words_only_task
    await hear_from_there(session)
    tools = () if words_only else tuple(session.catalogue.values())
    state = session.state
    if due := compressed(state.conversation, state.still_open, session.policy.context, session.measure):
        await session.record(Draft(due, "foregate"))
    request = ModelRequest(session.state.messages, tools, words_only)
    try:
        response = await respond(session, request)
    except ModelError as error:
        return await session.end("failed", blocker=str(error), need="a model that answers")
    await said(session, response)
    return None


async def respond(session: Session, request: ModelRequest) -> ModelResponse:
    """Ask the model; where looks may be taken early, they are over when the response is there."""
    if not (session.early and request.tools):
        return await session.model.respond(request, session.on_text)
    async with EarlyLooks(session) as follower:
        return await session.model.respond(request, follower)


async def decide(session: Session, open_turn: OpenTurn) -> Outcome | None:
    """Judge the response; a Need is met and the response judged again, a judgement is recorded."""
    try:
        await session.look_ahead(open_turn.response.calls)
    except RuntimeLost as lost:
        return await without_runtime(session, str(lost))
    turn = session.turn(open_turn)
    session.facts = session.prelude.facts(turn)
    judgement = judge(turn, session.prelude, session.facts)
    if isinstance(judgement, Need):
        return await session.meet(judgement, turn)
    stuck = budget.stuck(turn, judgement, session.policy)
    if stuck is not None and session.person is not None and not turn.answers_of("loop"):
        return await session.meet(stuck, turn)
    await session.record(session.judged(turn, judgement, stuck=stuck.key if stuck else ""))
    for decision in judgement.decisions:
        if decision.code == "gate_error":
            why = [ruling.reason for ruling in decision.rulings]
            diagnostics().warning("gate_error", gate=decision.gate, seq=session.state.seq, why=why)
    return None


async def without_runtime(session: Session, why: str) -> Outcome | None:
    """Answer every call as not run because the runtime is lost, and end the task; a plan ends itself."""
    await give_up(session, RUNTIME_LOST, why)
    task = session.state.task
    if task is None or task.running_plan:
        return None
    return await session.end("blocked", blocker=why, need="a runtime that answers")


async def answer(session: Session, open_turn: OpenTurn) -> Outcome | None:
    """End the task with the model's words; an empty response is asked for once more."""
    task = session.state.task
    assert task is not None
    text = open_turn.response.text.strip()
    if text:
        if await verify(session, open_turn):
            return None
        return await session.end("completed", text, remark=remark(task))
    if task.empty_responses < 2:
        return await ask_model(session)
    return await session.end("failed", blocker="the model gave two empty responses", need="another model or request")


async def between_turns(session: Session) -> Outcome | None:
    """Do what a finished turn left to do: ask the person, stop, or end at a limit."""
    task = session.state.task
    assert task is not None
    if task.question:
        return await session.paused(Outcome("needs_input", task.question))
    if task.wants_plan and session.desk is not None:
        return await session.desk.go_on()
    choice, words = task.after_turn
    if choice == "stop":
        return await session.end("blocked", blocker="the person stopped a call that was held twice")
    if choice == "more":
        await session.hear(words)
    elif task.stuck and not choice:
        return await session.end("blocked", blocker=task.stuck, need="what the ruling asked for")
    if limit := budget.reached(task, session.policy, session.clock):
        return await session.end("budget_exhausted", blocker=limit, need="a higher limit or a smaller request")
    return None

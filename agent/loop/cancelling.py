"""Giving up the task in hand: by whoever cancels what runs, or in so many words of a person."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress

from foregate.agent.loop.answers import answer_remaining, cancel_open_task
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.agent.session.stopping import PERSON, Stopped, name_canceller
from foregate.agent.session.turn_builder import Facts
from foregate.agent.workspace.thread import wait_until_over
from foregate.schemas.errors import RuntimeLost, UsageError

GIVEN_UP = "what waited for your answer is given up, and nothing of it ran"
"""What a person is told whose message came while a question was open."""


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

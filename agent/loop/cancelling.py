"""Giving up the task in hand, said in so many words: no message does it while a question is open."""

from __future__ import annotations

from contextlib import suppress

from foregate.agent.loop.answers import answer_remaining, cancel_open_task
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.agent.session.turn_builder import Facts
from foregate.schemas.errors import RuntimeLost, UsageError

GIVEN_UP = "what waited for your answer is given up, and nothing of it ran"
"""What a person is told whose message came while a question was open."""


def refuse_while_asking(session: Session) -> None:
    """Raise UsageError where the open task waits for a person's answer, or has one and was not gone on with."""
    if not session.state.waits_for_person:
        return
    asked, name = session.state.question, session.name
    give_up = "or give its task up (`Agent.cancel`, /cancel in a chat)"
    if asked is None and session.state.running_task.paused != "awaiting_approval":
        ways = f"go on with it (`Agent.go_on`, `foregate resume {name}`), {give_up}"
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

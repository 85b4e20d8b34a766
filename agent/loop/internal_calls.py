"""Observations Foregate makes itself: a remedy's look, a postlude's check, one repeated after a crash, an early one."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from foregate.agent.effects.executor import execute
from foregate.agent.session.session import Session
from foregate.gates.prelude import judge
from foregate.schemas.errors import RuntimeLost
from foregate.schemas.judgement import Judgement, Standing
from foregate.schemas.tool_call import CallFacts, Permit, ToolCall, ToolResult
from foregate.schemas.tool_spec import Effect


async def run_observation(
    session: Session, call: ToolCall, actor: Literal["runner", "postlude"], cause: int
) -> ToolResult | None:
    """Judge `call` as a turn of its own and run it; None when it is no mere observation, or is not allowed."""
    leave = await get_observation_permit(session, call, actor, cause)
    if leave is None:
        return None
    result = await execute(session, *leave, actor)
    return result if isinstance(result, ToolResult) else None


async def get_observation_permit(
    session: Session, call: ToolCall, actor: Literal["runner", "postlude"], cause: int, *, said: int | None = None
) -> tuple[Permit, CallFacts] | None:
    """Judge `call` as a turn of its own; return leave to run it, None when it is no look or is not allowed.

    `said` is given for a call of a response that still arrives: how many characters of words have come.
    """
    open_turn = session.state.open
    response = open_turn.seq if open_turn is not None else session.state.seq
    try:
        await session.refresh_survey([call])
    except RuntimeLost:
        return None
    in_hand = session.turns.build_own_turn(response, (call,), actor, cause)
    if said is not None:
        in_hand = session.turns.with_facts(replace(in_hand.turn, narrated=max(in_hand.turn.narrated, said)))
    turn, facts = in_hand.turn, in_hand.facts
    if facts[call.id].effect is not Effect.OBSERVATION:
        return None
    judgement = judge(turn, session.prelude, facts)
    if not isinstance(judgement, Judgement):
        return None
    (event,) = await session.record(session.turns.draft_judged(turn, judgement, early=said is not None))
    if judgement.find_verdict(call.id).standing is not Standing.ALLOW:
        return None
    return Permit(call.id, call.digest, event.seq, turn.survey_hash), facts[call.id]

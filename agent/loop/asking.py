"""Asking the session's model with everything said so far, shortened to what its endpoint takes."""

from __future__ import annotations

import json
from functools import partial

from foregate.agent.loop.internal_calls import Prefetch
from foregate.agent.session.compression import get_measure, plan_compression
from foregate.agent.session.session import Session
from foregate.evidence.state.conversation import UNKNOWN, TokenMeasure
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.task import WHY
from foregate.evidence.state.truncate import format_line
from foregate.schemas.errors import ContextTooLong
from foregate.schemas.event import Draft
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import LearningModel
from foregate.schemas.tool_spec import ToolSpec

_SHORTENED = 3
"""Times one request is shortened because it was refused as too long; where the refusal has numbers once is enough."""
_ANSWER = 8
"""One part in so many of what an endpoint takes is left for the answer."""


def describe_open_trouble(state: SessionState) -> list[str]:
    """Return a line for each failure, hold and unknown outcome of a change that nothing has settled since."""
    found = {(one.tool, one.target): f"{UNKNOWN}: {one.reason}" for one in state.parked.values()}
    if state.task is not None:
        found.update({key: f"{what}: {state.task.why[key]}" for key, what in state.task.trouble.items()})
    return [format_line(f"open: `{' '.join(key).strip()}` {what}", 2 * WHY) for key, what in found.items()]


async def request_response(session: Session, *, words_only: bool) -> ModelResponse:
    """Return what the model says; a request that is refused as too long is shortened to what fits and asked again.

    Raises ModelError.
    """
    model = getattr(session.model, "inner", session.model)
    # Of a LearningModel; to ask each turn whether it is one costs more than a gate does.
    room = known if isinstance(known := getattr(model, "room", 0), int) else 0
    await compress_conversation(session, room)
    tools = () if words_only else tuple(session.catalogue.values())
    for attempt in range(_SHORTENED + 1):
        request = ModelRequest(session.state.messages, tools, words_only)
        try:
            return await _respond(session, request)
        except ContextTooLong as refused:
            room = compute_room(refused, request, get_measure(session.model.name))
            if attempt == _SHORTENED or room <= 0 or not await compress_conversation(session, room):
                raise
            if refused.limit and isinstance(model, LearningModel):
                model.learn_room(room)
    raise AssertionError("the last attempt ends in an answer or an error")


async def _respond(session: Session, request: ModelRequest) -> ModelResponse:
    if session.prefetch and request.tools:
        # The looks taken early are over when the response is there.
        async with Prefetch(session) as follower:
            return await session.model.respond(request, follower)
    return await session.model.respond(request, session.on_text)


async def compress_conversation(session: Session, room: int = 0) -> bool:
    """Leave out what is beyond the policy's limit, or beyond `room` tokens unless it is 0; whether there was any."""
    section, state = session.policy.context, session.state
    if room and (room < section.max_tokens or not section.max_tokens):
        section = section.model_copy(update={"max_tokens": room})
    trouble, measure = partial(describe_open_trouble, state), partial(get_measure, session.model.name)
    due = plan_compression(state.conversation, trouble, section, measure)
    if due is not None:
        await session.record(Draft(due, "foregate"))
    return due is not None


def compute_room(refused: ContextTooLong, request: ModelRequest, counted: TokenMeasure) -> int:
    """Return the tokens that messages may take, as `counted` counts them, so that the request fits; 0 for none.

    What the endpoint counted corrects our own count. Without its numbers it is half of what was sent.
    """
    said = sum(counted.count_tokens(message) for message in request.messages)
    beside = sum(_count_tool(spec, counted) for spec in request.tools)
    if not refused.limit or (not refused.asked and refused.limit >= said + beside):
        return said // 2
    fits = refused.limit * (said + beside) // refused.asked if refused.asked else refused.limit
    return min(max(fits - fits // _ANSWER - beside, 0), said - 1)


def _count_tool(spec: ToolSpec, counted: TokenMeasure) -> int:
    texts = spec.name, spec.description, json.dumps(spec.parameters, default=dict)
    return sum(map(counted.of, texts))

"""Asking whoever can tell a gate what it must know: the planner and the critic, or a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from foregate.agent.session.prompts import CRITIC, PLANNER
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session, TurnInHand
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, ModelError
from foregate.schemas.event import Draft, NeedAnswered, NeedRaised
from foregate.schemas.judgement import Answer, Grant, Need
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.model_response import Usage
from foregate.schemas.plan import Plan
from foregate.schemas.protocols import Model
from foregate.schemas.strict_json import Json, get_text
from foregate.schemas.strict_schema import Critique, strict_schema
from foregate.schemas.turn import Turn


async def answer_need(session: Session, need: Need, in_hand: TurnInHand) -> RunResult | None:
    """Record a question and its answer; a person who cannot answer now pauses the task."""
    turn = in_hand.turn
    need = await _raise_need(session, need, turn)
    if need.who != "person":
        advice = await ask_advisor(session.model, need, session.policy)
        words = session.blobs.put(advice.text.encode())
        error, usage = advice.error, advice.usage
        await record_answer(session, need, turn, advice.value, error, usage=usage, response=words)
        return None
    if need.expires_at and session.clock() > need.expires_at:
        await record_answer(session, need, turn, None, "nobody answered in time")
        return None
    await session.log.settle()
    session.asked = in_hand
    try:
        reply = await session.person.answer(need) if session.person is not None else None
    finally:
        session.asked = None
    # a person takes their time, so what no survey could check is forgotten
    session.prefetched = {key: found for key, found in session.prefetched.items() if found.is_checkable}
    if reply is None:
        return await session.pause(RunResult("awaiting_approval", str(need.request.get("question", ""))))
    value = {"choice": reply.choice, "text": strict_json.scrub(reply.text), "by": reply.by}
    await record_answer(session, need, turn, value, grants=_override(need, reply.choice))
    return None


async def record_answer(
    session: Session, need: Need, turn: Turn, value: Mapping[str, Json] | None, error: str = "", **more: Any
) -> None:
    """Record an answer, bound to the survey and the policy it was given under; `more` are fields of NeedAnswered."""
    answer = build_answer(need, turn, value, error, session.clock())
    await session.record(Draft(NeedAnswered(answer=answer, **more), need.who))


def build_answer(
    need: Need, turn: Turn, value: Mapping[str, Json] | None, error: str, now: str, seq: int = 0
) -> Answer:
    """Return an answer bound to what was asked about, given at `now` and recorded as event `seq`."""
    bound = turn.survey_hash, turn.policy_hash
    return Answer(need.gate, need.who, need.key, need.digests, *bound, value, error, now, need.expires_at, seq)


async def _raise_need(session: Session, need: Need, turn: Turn) -> Need:
    """Record a question that is not open already; return it with the time it was given at first."""
    open_turn = session.state.open
    assert open_turn is not None
    raised, question = open_turn.need, (need.gate, need.key, turn.survey_hash)
    if raised is not None and (raised.need.gate, raised.need.key, raised.survey_hash) == question:
        return replace(need, expires_at=raised.need.expires_at)
    request = session.blobs.put(strict_json.canonical(need.request))
    body = NeedRaised(need=replace(need, request={}), request=request, survey_hash=turn.survey_hash)
    await session.record(Draft(body, "foregate"))
    return need


def _override(need: Need, choice: str) -> tuple[Grant, ...]:
    """Return the grants of a person who wants a call done that was held twice: exactly this call, gate and code."""
    if need.gate != "loop" or choice != "anyway" or not need.request.get("can_override"):
        return ()
    gate, code = get_text(need.request, "gate"), get_text(need.request, "code")
    return tuple(Grant(gate, code, "", digest=digest, until="task") for digest in need.digests)


class AdvisorAnswer(NamedTuple):
    """What came back: a value that fits the schema, or None and why; and what it used."""

    value: Mapping[str, Json] | None
    error: str = ""
    usage: Usage = Usage()
    text: str = ""


async def ask_advisor(model: Model, need: Need, policy: Policy) -> AdvisorAnswer:
    """Ask the planner or the critic for what a gate must know; a failure is an answer too, never raised."""
    planner = need.who == "planner"
    purpose: Literal["plan", "critique"] = "plan" if planner else "critique"
    noun: type[BaseModel] = Plan if planner else Critique
    bound = policy.plan.max_bytes if planner else policy.critique.max_bytes
    words = strict_json.canonical(need.request).decode()
    request = ModelRequest(
        [Message("system", PLANNER if planner else CRITIC), Message("user", words)],
        words_only=True,
        schema_name=f"pre_execution_{purpose}_v1",
        schema=strict_schema(noun),
        purpose=purpose,
    )
    text, usage = "", Usage()
    try:
        response = await model.respond(request)
        text, usage = strict_json.scrub(response.text), response.usage
        value: dict[str, Json] = noun.model_validate(strict_json.parse(strip_fence(text))).model_dump(mode="json")
        if len(strict_json.canonical(value)) <= bound:
            return AdvisorAnswer(value, "", usage, text)
        why = f"larger than {bound} bytes"
    except (ModelError, InvalidJson) as error:
        why = str(error)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        why = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return AdvisorAnswer(None, f"{purpose}_generation_failed: {why}"[:300], usage, text)


def strip_fence(text: str) -> str:
    """Return what stands in the one code fence an answer may come in."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
        return stripped[stripped.index("\n") : -3]
    return stripped

"""Asking whoever can tell a gate what it must know: the planner and the critic, or a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from foregate.agent.session.advice import ask_advisor
from foregate.agent.session.prefetched import PrefetchedResults
from foregate.agent.session.session_log import SessionLog
from foregate.agent.session.turn_builder import TurnInHand
from foregate.gates.declaring import read_declared
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.event import Draft, NeedAnswered, NeedRaised
from foregate.schemas.judgement import Answer, Grant, Need
from foregate.schemas.protocols import Blobs, Model, Person
from foregate.schemas.strict_json import Json, get_list, get_text
from foregate.schemas.turn import Turn


class Interaction:
    """Puts the questions of one session and records what is answered. Without a `person` nobody can be asked."""

    def __init__(
        self,
        log: SessionLog,
        blobs: Blobs,
        model: Model,
        policy: Policy,
        person: Person | None,
        prefetched: PrefetchedResults,
    ) -> None:
        self._log, self._blobs, self._model, self._policy = log, blobs, model, policy
        self._person, self._prefetched = person, prefetched
        self.asked: TurnInHand | None = None
        """The turn a person is asked about just now, for whoever shows it."""

    async def answer_need(self, need: Need, in_hand: TurnInHand) -> bool:
        """Record a question and its answer; return False where a person is to answer and does not now."""
        turn = in_hand.turn
        need = await self._raise_need(need, turn)
        if need.who != "person":
            advice = await ask_advisor(self._model, need, self._policy)
            words = self._blobs.put(advice.text.encode())
            used = {"usage": advice.usage, "model_calls": advice.requests, "response": words}
            await self.record_answer(need, turn, advice.value, advice.error, **used)
            return True
        if need.expires_at and self._log.clock() > need.expires_at:
            await self.record_answer(need, turn, None, "nobody answered in time")
            return True
        await self._log.settle()
        self.asked = in_hand
        try:
            reply = await self._person.answer(need) if self._person is not None else None
        finally:
            self.asked = None
        self._prefetched.forget_uncheckable()  # a person takes their time
        if reply is None:
            return False
        read_declared(reply.value, need.request, "")  # what the sheet did not ask is refused before it is recorded
        await self.record_answer(need, turn, reply.value, grants=_override(need, reply.choice))
        return True

    async def record_answer(
        self, need: Need, turn: Turn, value: Mapping[str, Json] | None, error: str = "", **more: Any
    ) -> None:
        """Record an answer, bound to the survey and policy it was given under; `more` are fields of NeedAnswered."""
        answer = build_answer(need, turn, value, error, self._log.clock())
        await self._log.record(Draft(NeedAnswered(answer=answer, **more), need.who))

    async def _raise_need(self, need: Need, turn: Turn) -> Need:
        """Record a question that is not open already; return it with the time it was given at first."""
        open_turn = self._log.state.open
        assert open_turn is not None
        raised, question = (open_turn.sandbox or open_turn).need, (need.gate, need.key, turn.survey_hash)
        if raised is not None and (raised.need.gate, raised.need.key, raised.survey_hash) == question:
            return replace(need, expires_at=raised.need.expires_at)
        request = self._blobs.put(strict_json.canonical(need.request))
        body = NeedRaised(need=replace(need, request={}), request=request, survey_hash=turn.survey_hash)
        await self._log.record(Draft(body, "foregate"))
        return need


def build_answer(
    need: Need, turn: Turn, value: Mapping[str, Json] | None, error: str, now: str, seq: int = 0
) -> Answer:
    """Return an answer bound to what was asked about, given at `now` and recorded as event `seq`."""
    bound = turn.survey_hash, turn.policy_hash
    return Answer(need.gate, need.who, need.key, need.digests, *bound, value, error, now, need.expires_at, seq)


def _override(need: Need, choice: str) -> tuple[Grant, ...]:
    """Return the grants of a person who wants a call done that was held again: this gate and code, the call as shown
    and the scripts it runs as they are."""
    if need.gate != "loop" or choice != "anyway" or not need.request.get("can_override"):
        return ()
    gate, code = get_text(need.request, "gate"), get_text(need.request, "code")
    scripts = "".join(get_text(call, "scripts", "") for call in get_list(need.request, "calls"))
    return tuple(Grant(gate, code, "", digest=digest, scripts=scripts, until="task") for digest in need.digests)


def strip_fence(text: str) -> str:
    """Return what stands in the one code fence an answer may come in."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
        return stripped[stripped.index("\n") : -3]
    return stripped

"""Asking whoever can tell a gate what it must know: the planner and the critic, or a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from foregate.agent.session.advice import ask_advisor
from foregate.agent.session.call_runner import PrefetchedResults
from foregate.agent.session.hearing import Hearing, draft_answer
from foregate.agent.session.session_log import SessionLog
from foregate.agent.session.turn_builder import TurnInHand
from foregate.gates.support.declaring import add_fields
from foregate.gates.support.mandate import add_candidates
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.event import Draft, NeedAnswered, NeedRaised
from foregate.schemas.identity import Identity
from foregate.schemas.judgement import Answer, Grant, Need
from foregate.schemas.protocols import Blobs, Model, Person, Reply
from foregate.schemas.question import AskedQuestion
from foregate.schemas.strict_json import Json, as_object, get_list, get_text
from foregate.schemas.tool_spec import Catalogue
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
        preview: Callable[[Need], bytes] = lambda need: b"",
    ) -> None:
        self._log, self._blobs, self._model, self.policy = log, blobs, model, policy
        self._prefetched, self._preview = prefetched, preview
        self._hearing = Hearing(log, person)
        self.asked: TurnInHand | None = None
        """The turn a person is asked about just now, for whoever shows it."""
        self.answered_by: Identity | None = None
        """Who gave the last answer of a person, None where nobody says."""

    async def answer_need(self, need: Need, in_hand: TurnInHand) -> bool:
        """Record a question and its answer; return False where a person is to answer and does not now."""
        turn = in_hand.turn
        if need.who == "person":
            return await self._ask_person(need, in_hand)
        need, _ = await self._raise_need(need, turn)
        advice = await ask_advisor(self._model, need, self.policy)
        words = self._blobs.put(advice.text.encode())
        used: dict[str, Any] = {"usage": advice.usage, "model_calls": advice.requests, "response": words}
        await self.record_answer(need, turn, advice.value, advice.error, **used)
        return True

    async def show_reads(self, need: Need, catalogue: Catalogue) -> Need:
        """Return an approval with what was read that a person can choose from; any other question as it is."""
        task = self._log.state.task
        if need.gate != "approval" or need.who != "person" or task is None:
            return need
        reads = list(task.earlier.reads.join(task.reads).list_reads())
        after = min((read.seq for read in reads), default=1) - 1
        events = await self._log.store.read(self._log.lease.session, after=after, kinds=("tool_finished",))
        more = reads, {event.seq: event.time for event in events}, catalogue, self.policy
        calls = map(as_object, get_list(need.request, "calls"))
        shown = [add_fields(add_candidates(call, *more), *more) for call in calls]
        return replace(need, request={**need.request, "calls": shown})

    async def _ask_person(self, need: Need, in_hand: TurnInHand) -> bool:
        """Record a question to the person and their answer, wherever it was given; return False without an answer."""
        self.asked = in_hand
        try:
            need, seq = await self._raise_need(need, in_hand.turn)
            given = await self._hearing.hear(need, seq)
        finally:
            self.asked = None
        # A person takes their time.
        self._prefetched.forget_uncheckable()
        if given is None:
            return False
        more: dict[str, Any] = {"grants": build_override(need, given.choice)} if given.value is not None else {}
        more |= {"elsewhere": self._hearing.came_from_elsewhere, "by": given.person}
        self.answered_by = given.person
        await self.record_answer(need, in_hand.turn, given.value, given.error, at=given.at, **more)
        return True

    async def ask_about_plan(self, need: Need) -> Reply | None:
        """Return what the person says to a question about the plan, recorded; None where they do not answer now.

        An answer that was given since the same question was asked, in whichever process, is that answer.
        """
        state, request = self._log.state, self._blobs.put(strict_json.canonical(need.request))
        known = state.task.plan_answer if state.task is not None else None
        if known is not None and known.request == request and _is_about(need, known.answer, self.policy.hash):
            return restore_reply(known.answer)
        asked = state.question
        if asked is None or asked.raised != strip_request(need, request) or asked.policy != self.policy.hash:
            (event,) = await self._log.record(Draft(strip_request(need, request), "foregate"))
            asked = AskedQuestion(event.seq, event.time, event.policy, strip_request(need, request))
        given = await self._hearing.hear(need, asked.seq)
        if given is None:
            return None
        answer = draft_answer(asked, given)
        elsewhere = self._hearing.came_from_elsewhere
        body = NeedAnswered(answer=answer, elsewhere=elsewhere, by=given.person)
        await self._log.record(Draft(body, "person"))
        return restore_reply(answer)

    async def record_answer(
        self,
        need: Need,
        turn: Turn,
        value: Mapping[str, Json] | None,
        error: str = "",
        *,
        at: str = "",
        **more: Any,
    ) -> None:
        """Record an answer, bound to the survey and policy it was given under; `more` are fields of NeedAnswered.

        `at` is when it was given, "" for now.
        """
        answer = build_answer(need, turn, value, error, at or self._log.clock())
        body = NeedAnswered(answer=answer, **more)
        body = replace(body, answer=replace(answer, requests=body.model_calls))
        await self._log.record(Draft(body, need.who))

    async def _raise_need(self, need: Need, turn: Turn) -> tuple[Need, int]:
        """Record a question that is not open already; return it with the time it was given at first, and its event."""
        open_turn = self._log.state.open
        assert open_turn is not None
        raised = (open_turn.sandbox or open_turn).need
        question = need.gate, need.key, turn.survey_hash, turn.policy_hash
        if raised is not None and question == (
            *(raised.need.gate, raised.need.key, raised.survey_hash),
            raised.policy_hash,
        ):
            return replace(need, expires_at=raised.need.expires_at), raised.seq
        body = strip_request(need, self._blobs.put(strict_json.canonical(need.request)), turn.survey_hash)
        if need.who == "person" and (previews := self._preview(need)):
            body = replace(body, previews=self._blobs.put(previews))
        (event,) = await self._log.record(Draft(body, "foregate"))
        return need, event.seq


def strip_request(need: Need, request: str, survey_hash: str = "") -> NeedRaised:
    """Return the event of a question whose request is kept under its hash."""
    return NeedRaised(need=replace(need, request={}), request=request, survey_hash=survey_hash)


def _is_about(need: Need, answer: Answer, policy_hash: str) -> bool:
    """Whether an answer was given to a question about the plan, under this policy."""
    asked = need.gate, need.key, need.digests, policy_hash
    return (answer.gate, answer.key, answer.digests, answer.policy_hash) == asked


def restore_reply(answer: Answer) -> Reply:
    """Return the reply that an answer records; without one it is a no."""
    return Reply(answer.choice or "no", answer.words)


def build_answer(
    need: Need, turn: Turn, value: Mapping[str, Json] | None, error: str, now: str, seq: int = 0
) -> Answer:
    """Return an answer bound to what was asked about, given at `now` and recorded as event `seq`."""
    bound = turn.survey_hash, turn.policy_hash
    return Answer(need.gate, need.who, need.key, need.digests, *bound, value, error, now, need.expires_at, seq)


def build_override(need: Need, choice: str) -> tuple[Grant, ...]:
    """Return the grants of a person who wants a call done that was held again: this gate and code, the call as shown,
    with its present scripts."""
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


class AbsentPerson:
    """Answers nothing now, so that each question waits until it is answered (`foregate approvals`), or expires."""

    async def answer(self, need: Need) -> Reply | None:
        """Return None: not now; see Person."""
        return None

"""Asking whoever can tell a gate what it must know, and hearing the answer: of two, the one kept first counts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from foregate.agent.session.advice import ask_advisor
from foregate.agent.session.session_log import SessionLog
from foregate.agent.session.turn_builder import PrefetchedResults, TurnInHand
from foregate.gates.support.declaring import add_fields, read_declared
from foregate.gates.support.mandate import add_candidates
from foregate.gates.support.replies import check_reply
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, LogError
from foregate.schemas.event import Draft, NeedAnswered, NeedRaised
from foregate.schemas.identity import Identity, identify
from foregate.schemas.judgement import Answer, Grant, Need
from foregate.schemas.protocols import Blobs, Model, Person, QuestionStore, Reply
from foregate.schemas.question import AskedQuestion, PendingAnswer
from foregate.schemas.strict_json import Json, as_object, get_list, get_text
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn
from foregate.telemetry.diagnostics import get_diagnostics

_LOOK = 0.25
"""Seconds between two looks whether somebody has answered elsewhere."""


class Hearing:
    """Gets the answer to one question after the other: from the person here, or from whoever answers elsewhere.

    Before an answer counts it is kept by the log's store, which keeps one to each question. So an answer that was
    given here while another process gave one is never a second one, and none is lost when a process ends.
    """

    def __init__(self, log: SessionLog, person: Person | None) -> None:
        self._log, self._person = log, person
        self.came_from_elsewhere = False
        """Whether the last answer was given in another process."""

    async def hear(self, need: Need, seq: int) -> PendingAnswer | None:
        """Return the answer to the question that event `seq` asks, None where nobody answers now.

        Raises UsageError where the person here declares something that the question does not ask.
        """
        await self._log.settle()
        self.came_from_elsewhere = True
        if (kept := await self._find_kept(need, seq)) is not None:
            return kept
        self.came_from_elsewhere = False
        if need.expires_at and self._log.clock() > need.expires_at:
            return await self._keep(need, seq, self._draft(None, "nobody answered in time"))
        given = await self._ask(need, seq)
        if given is None or isinstance(given, PendingAnswer):
            self.came_from_elsewhere = given is not None
            return given
        # What the sheet did not ask is refused before it is recorded.
        read_declared(given.value, need.request, "")
        return await self._keep(need, seq, self._draft(given))

    def _draft(self, reply: Reply | None, error: str = "") -> PendingAnswer:
        return draft_reply(reply, self._log.clock(), error, self._log.by)

    async def _ask(self, need: Need, seq: int) -> Reply | PendingAnswer | None:
        """Ask the person here, until they answer or somebody does so elsewhere."""
        if self._person is None:
            return None
        store = self._log.store
        if not isinstance(store, QuestionStore):
            return await self._person.answer(need)
        asking = asyncio.ensure_future(self._person.answer(need))
        watching = asyncio.ensure_future(self._watch(store, need, seq))
        try:
            await asyncio.wait((asking, watching), return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else watching.result()
        finally:
            for one in (asking, watching):
                one.cancel()
            await asyncio.gather(asking, watching, return_exceptions=True)

    async def _watch(self, store: QuestionStore, need: Need, seq: int) -> PendingAnswer:
        """Return the answer that somebody gives elsewhere, once there is one."""
        while True:
            # Another process writes for long, say; the person here can answer meanwhile.
            with suppress(LogError):
                if text := await store.read_handed(self._log.lease.session, seq):
                    return read_handed(text, need)
            await asyncio.sleep(_LOOK)

    async def _find_kept(self, need: Need, seq: int) -> PendingAnswer | None:
        store = self._log.store
        text = await store.read_handed(self._log.lease.session, seq) if isinstance(store, QuestionStore) else ""
        return read_handed(text, need) if text else None

    async def _keep(self, need: Need, seq: int, mine: PendingAnswer) -> PendingAnswer:
        """Return the answer that counts: this one, or one that was kept before it."""
        store = self._log.store
        text = await store.hand_in(self._log.lease.session, seq, mine.text) if isinstance(store, QuestionStore) else ""
        if text in ("", mine.text):
            return mine
        self.came_from_elsewhere = True
        return read_handed(text, need)


def draft_reply(reply: Reply | None, at: str, error: str = "", runs: Identity | None = None) -> PendingAnswer:
    """Return a reply as an answer on its way into the log, given at a UTC time, by who `runs` the session unless it
    says by whom."""
    if reply is None:
        return PendingAnswer(os.urandom(8).hex(), at, None, error)
    return PendingAnswer(os.urandom(8).hex(), at, reply.value, error, reply.person or identify(reply.by, runs))


def read_handed(text: str, need: Need) -> PendingAnswer:
    """Return the answer a store kept; one that cannot be one to this question is none, and permits nothing."""
    try:
        found = PendingAnswer.of(text)
        if found.value is not None:
            check_reply(need, Reply(**found.value))
    except (ForegateError, TypeError) as error:
        get_diagnostics().warning("answer_not_read", gate=need.gate, why=str(error))
        return PendingAnswer("", "", None, "the answer that was kept cannot be read")
    return found


def draft_answer(asked: AskedQuestion, given: PendingAnswer) -> Answer:
    """Return an answer bound to what was asked: the calls, and the survey and the policy they were judged by."""
    need, bound = asked.raised.need, (asked.raised.survey_hash, asked.policy)
    about = need.gate, need.who, need.key, need.digests
    return Answer(*about, *bound, given.value, given.error, given.at, need.expires_at)


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

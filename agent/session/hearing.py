"""Hearing a person's answer, whichever process it is given in: of two, the one that is kept first counts."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from foregate.agent.session.session_log import SessionLog
from foregate.gates.support.declaring import read_declared
from foregate.gates.support.replies import check_reply
from foregate.schemas.errors import ForegateError, LogError
from foregate.schemas.identity import Identity, identify
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.protocols import Person, QuestionStore, Reply
from foregate.schemas.question import AskedQuestion, PendingAnswer
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

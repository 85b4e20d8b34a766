"""Answering a question from anywhere: without the session's process, its tools, its model or its workspace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Literal

from foregate.agent.session.interaction import build_override, draft_answer, draft_reply
from foregate.agent.session.session_log import Clock, utc_now
from foregate.gates.support.replies import check_named, check_reply
from foregate.schemas.errors import SessionHeld, UsageError
from foregate.schemas.event import Draft, NeedAnswered
from foregate.schemas.identity import Identity
from foregate.schemas.protocols import Lease, Log, QuestionStore, Reply
from foregate.schemas.question import AskedQuestion, PendingAnswer, Question, describe_end, follow_question
from foregate.schemas.strict_json import Json

Delivery = Literal["recorded", "taken", "waiting"]
"""Where an answer is: recorded by this process, taken by the one that asks, or kept for that one to take."""
_PATIENCE, _PAUSE = 5.0, 0.1
"""Seconds to wait until the process that asks has taken an answer, and between two looks."""
_LATER = ("project",)
"""Choices that say more than the session's log can keep."""


async def answer_question(
    log: Log, question: Question, reply: Reply, clock: Clock = utc_now, runs: Identity | None = None
) -> Delivery:
    """Answer a question durably, bound to what it asked, and return where the answer is.

    `runs` is who runs this process, by whom the reply is where it does not say another one.

    It is in the session's log when this returns, unless a live process holds the session: that one takes it as soon as
    it looks. Raises UsageError, one sentence, for a reply that is none to this question, for a question that has
    expired, and where somebody else has answered before; then nothing happens.
    """
    if reply.choice in _LATER or not all(map(is_about_fields, reply.declared.values())):
        how = f"`foregate resume {question.session}` at a terminal shows it"
        raise UsageError(f"what holds beyond this session is said at the sheet; {how}")
    return await _deliver(log, question, await keep_answer(log, question, reply, clock(), runs))


def is_about_fields(said: Json) -> bool:
    """Whether what an answer says of a tool is only which of its fields are own."""
    return isinstance(said, Mapping) and {*said} == {"own"}


async def keep_answer(
    log: Log, question: Question, reply: Reply, now: str, runs: Identity | None = None
) -> PendingAnswer:
    """Keep a reply, given at a UTC time, as the answer to a question; see `answer_question`."""
    name = question.name
    check_reply(question.need, reply)
    check_named(question.need, reply)
    if question.is_expired(now):
        after = f"`foregate resume {question.session}` goes on without it"
        raise UsageError(f"`{name}` expired at {question.need.expires_at}, so nothing was decided; {after}")
    mine = draft_reply(reply, now, runs=runs)
    if isinstance(log, QuestionStore):
        kept = await log.hand_in(question.session, question.asked.seq, mine.text)
        if not kept:
            raise UsageError(f"`{name}` was answered or closed just now; `foregate audit show` tells how")
        if kept != mine.text:
            first = PendingAnswer.of(kept)
            raise UsageError(f"`{name}` was answered already: {first.choice}, by {first.by[:64]}, at {first.at}")
    return mine


async def _deliver(log: Log, question: Question, mine: PendingAnswer) -> Delivery:
    """Record an answer that counts where nobody holds its session, else wait a little for whoever does to take it."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            lease = await log.claim(question.session)
        except SessionHeld:
            if not isinstance(log, QuestionStore):
                raise
        else:
            try:
                return await _record(log, question, mine, lease)
            finally:
                await log.release(lease)
        if not await log.read_handed(question.session, question.asked.seq):
            return await _check_taken(log, question, mine)
        if time.monotonic() > until:
            return "waiting"
        await asyncio.sleep(_PAUSE)


async def _check_taken(log: Log, question: Question, mine: PendingAnswer) -> Delivery:
    """Return that an answer was taken; raise UsageError where its question was closed by something else first."""
    open_: AskedQuestion | None = question.asked
    for event in await log.read(question.session, after=question.asked.seq):
        if isinstance(event.body, NeedAnswered) and event.body.answer == draft_answer(question.asked, mine):
            return "taken"
        if (open_ := follow_question(open_, event)) != question.asked:
            raise UsageError(describe_end(question.name, event))
    return "waiting"


async def _record(log: Log, question: Question, mine: PendingAnswer, lease: Lease) -> Delivery:
    """Append the answer unless the process that asked has done so before it gave the session back."""
    asked, policy, moment = question.asked, question.asked.policy, mine.at
    open_: AskedQuestion | None = None
    for event in await log.read(question.session, after=asked.seq - 1):
        open_, policy, moment = follow_question(open_, event), event.policy, max(moment, event.time)
    if open_ is None or open_.seq != asked.seq:
        return await _check_taken(log, question, mine)
    answer = draft_answer(asked, mine)
    body = NeedAnswered(
        answer=answer, grants=build_override(question.need, mine.choice), elsewhere=True, by=mine.person
    )
    await log.append(lease, [Draft(body, "person")], policy=policy, time=moment)
    await log.settle(lease)
    return "recorded"

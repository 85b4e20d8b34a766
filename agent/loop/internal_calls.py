"""Observations Foregate makes itself: a remedy's look, a postlude's check, one repeated after a crash, an early one."""

from __future__ import annotations

import asyncio
from typing import Self

from msgspec.structs import replace

from foregate.agent.effects.executor import execute
from foregate.agent.session.prefetched import PrefetchedResult
from foregate.agent.session.result import DELEGATE
from foregate.agent.session.session import Session
from foregate.evidence.state.dataflow import find_steps
from foregate.evidence.state.task import OpenTurn, TaskState, build_checks, build_observations
from foregate.gates.prelude import judge, judge_answer
from foregate.schemas.errors import RuntimeLost
from foregate.schemas.judgement import Judgement, Standing
from foregate.schemas.model_response import Follower
from foregate.schemas.tool_call import CallFacts, Permit, ToolCall, ToolResult
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import TurnActor


async def run_observation(session: Session, call: ToolCall, actor: TurnActor, cause: int) -> ToolResult | None:
    """Judge `call` as a turn of its own and run it; None when it is no mere observation, or is not allowed."""
    leave = await get_observation_permit(session, call, actor, cause)
    if leave is None:
        return None
    result = await execute(session, *leave, actor)
    return result if isinstance(result, ToolResult) else None


async def get_observation_permit(
    session: Session, call: ToolCall, actor: TurnActor, cause: int, *, said: int | None = None
) -> tuple[Permit, CallFacts] | None:
    """Judge `call` as a turn of its own; return leave to run it, None when it is no look or is not allowed.

    `said` is given for a call of a response that still arrives: how many characters of words have come.
    """
    open_turn = session.state.open
    response = open_turn.seq if open_turn is not None else session.state.seq
    try:
        await session.tools.refresh([call])
    except RuntimeLost:
        return None
    in_hand = session.turns.build_own_turn(response, (call,), actor, cause)
    turn, facts = in_hand.turn, in_hand.facts
    if said is not None:
        turn = replace(turn, narrated=max(turn.narrated, said))
        facts = session.prelude.facts(turn)
    if facts[call.id].effect is not Effect.OBSERVATION:
        return None
    judgement = judge(turn, session.prelude, facts)
    if not isinstance(judgement, Judgement):
        return None
    (event,) = await session.record(session.turns.draft_judgement(turn, judgement, early=said is not None))
    if judgement.find_verdict(call.id).standing is not Standing.ALLOW:
        return None
    return Permit(call.id, call.digest, event.seq, turn.survey_hash), facts[call.id]


class Prefetch(Follower):
    """Follows a response and takes its looks as they come, each judged as a turn of its own, in written order.

    Taken are only looks that stand before everything else: from the first call that is none, or that waits for the
    result of another, none is. As a context it ends with no look under way: without a response it cancels them.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session.on_text)
        self._session, self._task, self._cause = session, session.state.running_task, session.state.seq
        self._before = self._task.used["tool_calls"]
        self._said = self._blank = self._number = 0
        self._over = self._stopped = False
        self._judging = asyncio.Lock()
        self._room = asyncio.Semaphore(session.policy.limits.parallel_calls)
        self._taken: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._seen: dict[str, PrefetchedResult] = {}

    def __call__(self, piece: str) -> None:
        begun = piece if self._said else piece.lstrip()
        if words := begun.rstrip():
            self._said, self._blank = self._said + self._blank + len(words), 0
        self._blank += len(begun) - len(words)
        super().__call__(piece)

    def call(self, call: ToolCall) -> None:
        """A call is complete: begin to look, unless an identical look is taken already."""
        limit = self._session.policy.limits.calls_per_response
        full = bool(limit) and self._number >= limit
        if full or call.arguments is None or call.name == DELEGATE.name or find_steps(dict(call.arguments)):
            self._over = True
        self._number += 1
        if not self._over and call.digest not in self._taken:
            self._taken.add(call.digest)
            self._tasks.append(asyncio.ensure_future(self._look(call, self._number)))

    def restart(self, why: str) -> None:
        """The response begins again: what was seen stands, for the response may want the same again."""
        self._said, self._blank, self._over = 0, 0, False
        super().restart(why)

    async def _look(self, call: ToolCall, number: int) -> None:
        session, limits = self._session, self._session.policy.limits
        often, most = limits.identical_observations, limits.tool_calls
        call = ToolCall.parse(call.name, call.raw, id=f"e{self._cause}.{number}")
        async with self._judging:
            # beyond the task's limits, with the looks before it counted, the call would not be carried out
            repeated = often and self._task.runs.get(call.digest, 0) >= often
            if self._stopped or repeated or (most and self._before + number > most):
                return
            leave = await get_observation_permit(session, call, "runner", self._cause, said=self._said)
            self._stopped = leave is None
        if leave is None:
            return
        permit, facts = leave
        async with self._room:
            result = await execute(session, permit, facts, "runner", early=True)
        if isinstance(result, ToolResult):
            self._seen[call.digest] = PrefetchedResult(permit.judged, facts.survey, result)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Wait for the looks under way, or cancel them where the response is not there; raise what failed in one."""
        try:
            if kind is None:
                await asyncio.gather(*self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for failure in ended:
            if isinstance(failure, Exception):
                raise failure
        if kind is None:
            response = self._session.state.seq + 1  # it is the next event
            self._session.prefetched.clear()
            self._session.prefetched.update(((response, digest), found) for digest, found in self._seen.items())


async def verify_promises(session: Session, open_turn: OpenTurn) -> bool:
    """Check the plan's promises and record the verdict; True when the model is told what is still to be shown."""
    task, policy = session.state.running_task, session.policy
    if policy.postlude.mode == "off" or task.plan is None or not task.plan.requires_verification or not task.changed:
        return False
    for number, call in enumerate(build_observations(task), start=1):
        await run_observation(session, replace(call, id=f"p{open_turn.seq}.{number}"), "postlude", open_turn.seq)
    turn = session.turns.build_own_turn(open_turn.seq, (), "postlude", open_turn.seq).turn
    turn = replace(turn, text=open_turn.response.text, checks=build_checks(task, session.state.ledger))
    judgement = judge_answer(turn, policy)
    pending = judgement.decisions[0].code == "verification_pending"
    notice = f"{judgement.decisions[0].summary}. Show it, or say plainly that it is not so." if pending else ""
    await session.record(session.turns.draft_judgement(turn, judgement, notice=notice))
    return pending


def build_remark(task: TaskState) -> str:
    """Return the line Foregate adds to an answer where something failed, was held, is unknown or unverified, or ""."""
    lines = [f"`{' '.join(key).strip()}` {what}" for key, what in task.trouble.items()]
    code, summary = task.verdict
    if code == "unverified":
        lines.append(f"unverified: {summary}")
    return f"[Foregate: {'; '.join(lines)}]" if lines else ""

"""Observations Foregate makes itself: a remedy's look, a postlude's check, one repeated after a crash, an early one."""

from __future__ import annotations

import asyncio
from typing import Self

from msgspec.structs import replace

from foregate.agent.loop.machine_runner import MachineRunner
from foregate.agent.session.result import DELEGATE
from foregate.agent.session.session import Session
from foregate.agent.session.turn_builder import PrefetchedResult
from foregate.evidence.state.dataflow import find_steps
from foregate.evidence.state.task import OpenTurn, TaskState, build_checks, build_observations
from foregate.gates.postlude import judge_answer
from foregate.gates.prelude import judge
from foregate.policy.policy import Policy
from foregate.policy.risk.claims import find_promise, find_untrue_claim, has_claim, wants_change, wants_deed
from foregate.schemas.errors import RuntimeLost
from foregate.schemas.judgement import Judgement, Standing
from foregate.schemas.model_response import Follower
from foregate.schemas.tool_call import CallFacts, Permit, ToolCall, ToolResult
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Check, TurnActor


async def run_observation(session: Session, call: ToolCall, actor: TurnActor, cause: int) -> ToolResult | None:
    """Judge `call` as a turn of its own and run it; None when it is no mere observation, or is not allowed."""
    leave = await get_observation_permit(session, call, actor, cause)
    if leave is None:
        return None
    result = await MachineRunner.of(session).execute(*leave, actor)
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
        call = replace(ToolCall.parse(call.name, call.raw, id=f"e{self._cause}.{number}"), sent=call.sent)
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
            result = await MachineRunner.of(session).execute(permit, facts, "runner", early=True)
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
            # It is the next event.
            response = self._session.state.seq + 1
            self._session.prefetched.clear()
            self._session.prefetched.update(((response, digest), found) for digest, found in self._seen.items())


async def verify_answer(session: Session, open_turn: OpenTurn) -> bool:
    """Check what the plan and the answer promise and record the verdict; True when the model is told what is open."""
    task, policy = session.state.running_task, session.policy
    if promise := find_bare_promise(task, open_turn.response.text, policy):
        checks: tuple[Check, ...] = (Check(f"the answer's promise `{promise[:120]}`", "failed"),)
        told = "Nothing ran yet. Send the call that does it now, or say plainly that it will not be done."
    else:
        planned = task.plan is not None and task.plan.requires_verification
        if policy.postlude.mode == "off" or not planned or not task.last_change:
            return False
        for number, call in enumerate(build_observations(task), start=1):
            await run_observation(session, replace(call, id=f"p{open_turn.seq}.{number}"), "postlude", open_turn.seq)
        checks = build_checks(task, session.state.ledger)
        told = "Show it, or say plainly that it is not so."
    turn = session.turns.build_own_turn(open_turn.seq, (), "postlude", open_turn.seq).turn
    turn = replace(turn, text=open_turn.response.text, checks=checks)
    judgement = judge_answer(turn, policy)
    pending = judgement.decisions[0].code == "verification_pending"
    notice = f"{judgement.decisions[0].summary}. {told}" if pending else ""
    await session.record(session.turns.draft_judgement(turn, judgement, notice=notice))
    return pending


def find_bare_promise(task: TaskState, text: str, policy: Policy) -> str:
    """Return the sentence in which an answer only promises what is asked for, where no call was ever sent, else ""."""
    ran = task.used["turns"] or task.used["tool_calls"] or task.trouble or task.unrun
    if ran or task.words_only or task.words_only_task or not wants_deed(task.messages, policy):
        return ""
    return find_promise(text, policy)


CUTS = {
    "length": "the answer was cut off at the endpoint's bound on its length",
    "content_filter": "a filter of the endpoint cut the answer off",
}
"""What is said of an answer that is not whole, by its finish reason."""


def build_remark(task: TaskState, text: str, policy: Policy, cut: str = "") -> str:
    """Return the line Foregate adds to an answer, or "": what failed, was held, is unknown, unverified or not true.

    `cut` says that the answer is not whole, and stands first.

    A call that did not run and is no trouble by itself is named only beside a claim.
    """
    found = dict(task.trouble)
    untrue = find_untrue_claim(text, task.reached, policy)
    if untrue or has_claim(text, policy):
        found |= {key: what for key, what in task.unrun.items() if untrue or key in task.unsettled}
    lines = [f"`{' '.join(key).strip()}` {what}" for key, what in found.items()]
    lines = [cut, *lines] if cut else lines
    if untrue and not lines and wants_change(task.messages, policy):
        lines.append("no call of this task did what the answer says")
    code, summary = task.verdict
    if code == "unverified":
        lines.append(f"unverified: {summary}")
    return f"[Foregate: {'; '.join(lines)}]" if lines else ""

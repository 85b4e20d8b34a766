"""Doing what a judgement allows and answering every call; what a sandbox changed is judged as a turn of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import product
from typing import TypeVar

from msgspec.structs import replace

from foregate.agent.loop.cancelling import answer_remaining, draft_answer
from foregate.agent.loop.executor import find_changed_resource
from foregate.agent.loop.internal_calls import run_observation
from foregate.agent.loop.machine_runner import MachineRunner
from foregate.agent.session.result import DELEGATE, CallNotStarted, ChildPaused, RunResult
from foregate.agent.session.session import Session
from foregate.agent.session.turn_builder import TurnInHand
from foregate.evidence.state.dataflow import AFTER_FAILURE, TOO_MANY
from foregate.evidence.state.task import OpenSandbox, OpenTurn
from foregate.gates.prelude import judge
from foregate.schemas import strict_json
from foregate.schemas.codes import NotRunCode
from foregate.schemas.event import Draft
from foregate.schemas.event_body import RemedyResult
from foregate.schemas.judgement import Need, Remedy, Standing, Verdict
from foregate.schemas.model_response import Block
from foregate.schemas.sandbox import SandboxedChanges
from foregate.schemas.tool_call import CallFacts, Permit, SurveyedResource, ToolCall
from foregate.schemas.tool_spec import Effect, ResourceKind

_GONE = "the sandbox in which this ran is gone, and nothing of it was kept; send it again if still wanted"
_NOTHING = "Nothing of what it did was kept."
T = TypeVar("T")
_ENDED = "the process ended before this was done; send it again if still wanted"
_FREE = nullcontext()
"""For a call that waits for no sandbox."""
_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.REPOSITORY)


async def settle_sandbox(session: Session, open_turn: OpenTurn, in_hand: TurnInHand) -> None:
    """Judge what the sandbox of the turn in hand changed, do what that allows, and answer the call.

    Raises ChildPaused where a person is to say yes to it and does not now: it is settled when the task goes on.
    """
    ended = open_turn.sandbox
    assert ended is not None
    facts, runner = in_hand.facts[ended.body.call], MachineRunner.of(session)
    found = runner.find_changes(ended.body)
    if found is None:
        await session.record(draft_answer(facts.call, facts, "not_run_cancelled", _GONE))
        return
    judged = await _judge_changes(session, open_turn, ended, found, facts)
    verdict = judged.judgement.find_verdict(ended.body.call) if judged.judgement is not None else None
    assert verdict is not None
    facts = judged.facts[ended.body.call]
    try:
        if verdict.standing is not Standing.ALLOW:
            await session.record(_draft_refusal(session, ended, found, facts, verdict))
            return
        permit = Permit(verdict.call, verdict.digest, judged.judged, judged.turn.survey_hash)
        done = await runner.apply(permit, facts, ended, found)
        if isinstance(done, CallNotStarted):
            await session.record(draft_answer(facts.call, facts, done.code, f"{done.message}. {_NOTHING}"))
    finally:
        await runner.discard(found)


async def _judge_changes(
    session: Session, open_turn: OpenTurn, ended: OpenSandbox, found: SandboxedChanges, command: CallFacts
) -> TurnInHand:
    """Return the judged turn of what a sandbox changed; whoever must say yes to it has been asked."""
    survey = await MachineRunner.of(session).survey_changes(ended, found, command)
    while True:
        answers, voided = session.turns.split_answers(ended.answers, (survey,))
        more = {"surveys": (survey,), "answers": answers, "voided": voided}
        in_hand = session.turns.build_own_turn(open_turn.seq, (command.call,), "sandbox", ended.seq, **more)
        judgement = judge(in_hand.turn, session.prelude, in_hand.facts)
        if not isinstance(judgement, Need):
            break
        if not await session.interaction.answer_need(judgement, in_hand):
            raise ChildPaused(RunResult("awaiting_approval", str(judgement.request.get("question", ""))))
        if judgement.who == "person" and ended.answers:
            session.keep_answer(ended.answers[-1], judgement)
    (event,) = await session.record(session.turns.draft_judgement(in_hand.turn, judgement))
    return replace(in_hand, judgement=judgement, judged=event.seq)


def _draft_refusal(
    session: Session, ended: OpenSandbox, found: SandboxedChanges, facts: CallFacts, verdict: Verdict
) -> Draft:
    """Return the answer to a call whose changes are thrown away: why, what it said, and what it would have changed."""
    ruling, diff = verdict.ruling, MachineRunner.of(session).format_changes(found)
    output = f"{ended.body.content}\n\nwhat it would have changed:\n{diff}"
    observed = RemedyResult(tool=facts.call.name, arguments={}, ok=ended.body.ok, output=output)
    more = {"ruling": verdict.standing.value, "gate": verdict.gate, "observed": observed}
    return draft_answer(facts.call, facts, ruling.code, f"{ruling.message}. {_NOTHING}", **more)


async def dispatch(session: Session, open_turn: OpenTurn, in_hand: TurnInHand | None) -> RunResult | None:
    """Run what may run, read where a hold names a read as its cure, and answer every call of the response.

    `in_hand` is None for a judged turn of an earlier process whose permission has lapsed: of it only observations run.
    """
    if in_hand is not None:
        return await Dispatch(session, open_turn, in_hand).run()
    assert open_turn.judgement is not None
    if open_turn.sandbox is not None:
        await MachineRunner.of(session).discard(SandboxedChanges(upper=open_turn.sandbox.body.upper))
    for verdict in open_turn.judgement.verdicts:
        call = open_turn.unanswered.get(verdict.call)
        if call is not None and verdict.standing is Standing.ALLOW:
            await run_observation(session, call, "runner", open_turn.judged)
    await answer_remaining(session, "not_run_cancelled", _ENDED, stages=False)
    return None


class Dispatch:
    """The calls of a judged response under way, of those in blocks at most `limits.parallel_calls` at the same time.

    A call that is in the way of one named before it waits for it, whichever blocks they are in; as it only ever waits
    for earlier ones, none waits for ever.
    """

    def __init__(self, session: Session, open_turn: OpenTurn, in_hand: TurnInHand) -> None:
        assert in_hand.judgement is not None
        self._session, self._open, self._in_hand, self._facts = session, open_turn, in_hand, in_hand.facts
        self._calls, self._verdicts = open_turn.response.calls, {v.call: v for v in in_hand.judgement.verdicts}
        self._bound = session.policy.limits.parallel_calls
        self._before: dict[int, list[int]] = {}
        """The places of the calls that a call waits for, by its own place."""
        self._over: dict[int, asyncio.Event] = {}

    @cached_property
    def _room(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(self._bound)

    @cached_property
    def _sandbox(self) -> asyncio.Lock:
        return asyncio.Lock()

    async def run(self) -> RunResult | None:
        """Run, read and answer; the outcome of a child task that paused is that of its parent."""
        session, open_turn = self._session, self._open
        try:
            for call in [call for call in open_turn.unanswered.values() if call.id in session.state.in_flight]:
                if await run_observation(session, call, "runner", open_turn.judged) is None:
                    await session.record(draft_answer(call, self._facts.get(call.id), "not_run_cancelled", _ENDED))
            if open_turn.sandbox is not None:
                await settle_sandbox(session, open_turn, self._in_hand)
            waiting = [verdict for verdict in self._verdicts.values() if verdict.call in open_turn.unanswered]
            for group in self._group_calls([v for v in waiting if v.call not in open_turn.in_blocks]):
                if len(group) == 1:
                    await self._run_call(group[0])
                else:
                    await run_together([self._run_call(verdict) for verdict in group])
            if open_turn.in_blocks:
                await self._run_blocks()
        except ChildPaused as child:
            return await session.pause(child.outcome)
        for verdict in [v for v in waiting if v.standing is not Standing.ALLOW]:
            facts, ruling = self._facts[verdict.call], verdict.ruling
            observed = await self._run_remedy(verdict.call, ruling.remedy) if ruling.remedy else None
            more = {"ruling": verdict.standing.value, "gate": verdict.gate, "remedy": ruling.remedy}
            answer = draft_answer(facts.call, facts, ruling.code, ruling.message, observed=observed, **more)
            await session.record(answer)
        if session.state.open is not None:
            await answer_remaining(session, "not_run_too_many", TOO_MANY, stages=False)
        return None

    def _group_calls(self, verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
        """Split into barriers: neighbouring observations together, every change alone, and every child task."""
        result: list[list[Verdict]] = []
        joinable = False
        for verdict in verdicts:
            facts = self._facts[verdict.call]
            # A child task shares the task's budget.
            alone = facts.changes or facts.call.name == DELEGATE.name
            if joinable and not alone and len(result[-1]) < self._bound:
                result[-1].append(verdict)
            else:
                result.append([verdict])
            joinable = not alone
        return result

    async def _run_call(self, verdict: Verdict) -> None:
        """Run one allowed call, or answer why not. A call that was ruled out is left to be answered as such."""
        if verdict.standing is not Standing.ALLOW:
            return
        session, facts = self._session, self._facts[verdict.call]
        # It serves once.
        early = session.prefetched.pop((self._open.seq, facts.call.digest), None)
        # What was seen early is another thing by now, so it is looked at again.
        if early is not None and find_changed_resource(early.survey, facts.survey, {}):
            early = None
        if early is None and (reason := self._find_obstacle(facts)):
            await session.record(draft_answer(facts.call, facts, *reason))
            return
        permit = Permit(verdict.call, verdict.digest, self._in_hand.judged, self._in_hand.turn.survey_hash)
        async with self._sandbox if facts.changes and facts.survey.work else _FREE:
            done = await MachineRunner.of(session).execute(permit, facts, prefetched=early)
            if isinstance(done, CallNotStarted):
                await session.record(draft_answer(facts.call, facts, done.code, done.message))
            elif (ended := self._open.sandbox) is not None and ended.body.call == facts.call.id:
                await settle_sandbox(session, self._open, self._in_hand)

    def _find_obstacle(self, facts: CallFacts) -> tuple[NotRunCode, str] | None:
        session, open_turn = self._session, self._open
        task, limits = session.state.running_task, session.policy.limits
        if facts.changes and (session.state.dry_run or open_turn.dry_run):
            return "not_run_dry_run", "a dry run: this was judged and would have run"
        if facts.changes and (open_turn.change_not_made or self._is_after_refused_change(facts.call)):
            return "not_run_after_change_not_made", "an earlier change of this response was not made; send it again"
        bound = limits.identical_changes if facts.changes else limits.identical_observations
        if bound and task.runs.get(facts.call.digest, 0) >= bound:
            return "not_run_loop", f"this identical call ran {bound} times and nothing changed; do something else"
        if limits.tool_calls and task.used["tool_calls"] >= limits.tool_calls:
            return "not_run_budget", "the task has used all its tool calls"
        return None

    def _is_after_refused_change(self, call: ToolCall) -> bool:
        """Whether a change before the call was ruled out; in a block its own sequence says what that stops."""
        for verdict in self._verdicts.values():
            if verdict.call == call.id:
                return False
            refused = verdict.standing is not Standing.ALLOW and verdict.call not in self._open.in_blocks
            if refused and self._facts[verdict.call].changes:
                return True
        return False

    async def _run_remedy(self, held: str, remedy: Remedy) -> RemedyResult | None:
        """Perform a remedy that only observes; None when it does not run, or the response observed its resource."""
        session, call = self._session, ToolCall.of(remedy.tool, remedy.arguments, id=f"{held}.remedy")
        wanted = {r.resource for r in session.surveyor.survey_call(call, session.state).resources}
        started = [self._facts[other] for other in self._facts if other in self._open.started]
        if any(not f.changes and wanted & {resource.resource for resource in f.resources} for f in started):
            return None
        result = await run_observation(session, call, "runner", self._open.judged)
        if result is None:
            return None
        output = strict_json.scrub(result.content)
        return RemedyResult(tool=call.name, arguments=dict(remedy.arguments), ok=result.ok, output=output)

    async def _run_blocks(self) -> None:
        """Run what may run, and answer what a failure before it stops; a call that was ruled out is left to be told."""
        order = self._open.response.order
        assert order is not None
        block = order.fit_to(len(self._calls))
        for place in block.find_places():
            facts = self._facts.get(self._calls[place].id)
            if facts is not None:
                earlier = [at for at in self._over if has_conflict(self._facts[self._calls[at].id], facts)]
                self._before[place], self._over[place] = earlier, asyncio.Event()
        await self._run_item(block)

    async def _run_item(self, item: int | Block) -> bool:
        """Run a call or a block; return whether all of it did what it should."""
        if isinstance(item, int):
            return await self._run_place(item)
        if item.kind == "parallel":
            return all(await run_together([self._run_item(inner) for inner in item.items]))
        going = True
        for inner in item.items:
            going = await self._run_item(inner) if going else await self._skip_item(inner)
        return going

    async def _run_place(self, place: int) -> bool:
        call = self._calls[place]
        verdict = self._verdicts.get(call.id)
        if verdict is None:
            return False
        for other in self._before[place]:
            await self._over[other].wait()
        if call.id in self._open.unanswered:
            async with self._room:
                await self._run_call(verdict)
        self._over[place].set()
        return call.id not in self._open.unanswered and call.id not in self._open.failed

    async def _skip_item(self, item: int | Block) -> bool:
        for place in (item,) if isinstance(item, int) else item.find_places():
            call = self._calls[place]
            verdict = self._verdicts.get(call.id)
            if verdict is None:
                continue
            if verdict.standing is Standing.ALLOW and call.id in self._open.unanswered:
                answer = draft_answer(call, self._facts[call.id], "not_run_after_failure", AFTER_FAILURE)
                await self._session.record(answer)
            self._over[place].set()
        return False


async def run_together(work: Sequence[Coroutine[None, None, T]]) -> list[T]:
    """Run all at once and return what each gives; where one raises, the others are over before it is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def has_conflict(first: CallFacts, second: CallFacts) -> bool:
    """Whether two calls must not run at once: one changes what both touch, may touch anything or is a child."""
    if any(facts.effect is Effect.UNKNOWN or facts.call.name == DELEGATE.name for facts in (first, second)):
        return True
    if not (first.changes or second.changes):
        return False
    return any(has_overlap(mine, yours) for mine, yours in product(first.resources, second.resources))


def has_overlap(first: SurveyedResource, second: SurveyedResource) -> bool:
    """Whether two accesses, one of them a change, are to one resource, or to a folder and something in it."""
    if not (first.access.changes or second.access.changes):
        return False
    if first.kind in _PATHS and second.kind in _PATHS:
        return _is_within(first.id, second.id) or _is_within(second.id, first.id)
    return first.resource == second.resource


def _is_within(path: str, folder: str) -> bool:
    return folder in (".", "") or path == folder or path.startswith(f"{folder.rstrip('/')}/")

"""Doing what a judgement allows, in written order or in the model's own blocks, and answering every call."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import product
from typing import TypeVar

from foregate.agent.effects.executor import CallNotStarted, execute
from foregate.agent.loop.internal_calls import run_observation
from foregate.agent.session.result import DELEGATE, ChildPaused, PrefetchedResult, RunResult
from foregate.agent.session.session import Facts, Session, TurnInHand
from foregate.agent.survey.surveyor import find_changed_resource
from foregate.evidence.state.dataflow import AFTER_FAILURE, TOO_MANY
from foregate.evidence.state.task import OpenTurn
from foregate.schemas import strict_json
from foregate.schemas.codes import NotRunCode
from foregate.schemas.event import Draft
from foregate.schemas.event_body import AnswerCode, CallAnswered, RemedyResult, RulingWord
from foregate.schemas.judgement import Remedy, Standing, Verdict
from foregate.schemas.model_response import Block
from foregate.schemas.tool_call import CallFacts, Permit, SurveyedResource, ToolCall
from foregate.schemas.tool_spec import Effect, ResourceKind

_ENDED = "the process ended before this was done; send it again if still wanted"


async def dispatch(session: Session, open_turn: OpenTurn, in_hand: TurnInHand | None) -> RunResult | None:
    """Run what may run, read where a hold names a read as its cure, and answer every call of the response.

    `in_hand` is None for a turn an earlier process judged whose permission has lapsed.
    """
    if in_hand is None:
        await dispatch_lapsed(session, open_turn)
        return None
    judgement = in_hand.judgement
    assert judgement is not None
    try:
        for call in [call for call in open_turn.unanswered.values() if call.id in session.state.in_flight]:
            if await run_observation(session, call, "runner", open_turn.judged) is None:
                await session.record(draft_answer(call, in_hand.facts.get(call.id), "not_run_cancelled", _ENDED))
        waiting = [verdict for verdict in judgement.verdicts if verdict.call in open_turn.unanswered]
        loose = [verdict for verdict in waiting if verdict.call not in open_turn.in_blocks]
        for group in group_calls(session, in_hand, loose):
            if len(group) == 1:
                await run_call(session, open_turn, in_hand, group[0])
            else:
                await run_together([run_call(session, open_turn, in_hand, verdict) for verdict in group])
        if open_turn.in_blocks:
            await Scheduler(session, open_turn, in_hand).run()
    except ChildPaused as child:
        return await session.pause(child.outcome)
    for verdict in [v for v in waiting if v.standing is not Standing.ALLOW]:
        await answer_ruled_out(session, open_turn, in_hand, verdict)
    await answer_remaining(session, "not_run_too_many", TOO_MANY, stages=False)
    return None


async def dispatch_lapsed(session: Session, open_turn: OpenTurn) -> None:
    """Go on with a turn whose permission has lapsed: observations run, changes are not made."""
    judgement = open_turn.judgement
    assert judgement is not None
    for verdict in judgement.verdicts:
        call = open_turn.unanswered.get(verdict.call)
        if call is not None and verdict.standing is Standing.ALLOW:
            await run_observation(session, call, "runner", open_turn.judged)
    await answer_remaining(session, "not_run_cancelled", _ENDED, stages=False)


def group_calls(session: Session, in_hand: TurnInHand, verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    """Split into barriers: neighbouring observations together, every change alone, and every child task."""
    bound = session.policy.limits.parallel_calls
    result: list[list[Verdict]] = []
    for verdict in verdicts:
        together = result and len(result[-1]) < bound and not runs_alone(in_hand, result[-1][0])
        if together and not runs_alone(in_hand, verdict):
            result[-1].append(verdict)
        else:
            result.append([verdict])
    return result


def runs_alone(in_hand: TurnInHand, verdict: Verdict) -> bool:
    """Whether the call of a verdict has a side effect, or shares the task's budget as a child task does."""
    facts = in_hand.facts[verdict.call]
    return facts.changes or facts.call.name == DELEGATE.name


async def answer_ruled_out(session: Session, open_turn: OpenTurn, in_hand: TurnInHand, verdict: Verdict) -> None:
    """Answer a held or denied call, with what its remedy shows when that is a read nobody else makes."""
    facts, ruling = in_hand.facts[verdict.call], verdict.ruling
    observed = await run_remedy(session, open_turn, in_hand, verdict) if ruling.remedy else None
    await session.record(
        draft_answer(
            facts.call,
            facts,
            ruling.code,
            ruling.message,
            ruling=verdict.standing.value,
            gate=verdict.gate,
            remedy=ruling.remedy,
            observed=observed,
        )
    )


async def run_remedy(
    session: Session, open_turn: OpenTurn, in_hand: TurnInHand, verdict: Verdict
) -> RemedyResult | None:
    """Perform a remedy that only observes; None when it does not run."""
    remedy = verdict.ruling.remedy
    assert remedy is not None
    call = ToolCall.of(remedy.tool, remedy.arguments, id=f"{verdict.call}.remedy")
    if is_read_already(session, open_turn, in_hand, call):
        return None
    result = await run_observation(session, call, "runner", open_turn.judged)
    if result is None:
        return None
    output = strict_json.scrub(result.content)
    return RemedyResult(tool=call.name, arguments=dict(remedy.arguments), ok=result.ok, output=output)


def is_read_already(session: Session, open_turn: OpenTurn, in_hand: TurnInHand, remedy: ToolCall) -> bool:
    """Whether a call of the same response, or the remedy of one, observed the same resource."""
    wanted = {r.resource for r in session.surveyor.survey_call(remedy, session.state).resources}
    return any(
        not facts.changes and wanted & {resource.resource for resource in facts.resources}
        for call_id, facts in in_hand.facts.items()
        if call_id in open_turn.started
    )


async def answer_remaining(
    session: Session, code: AnswerCode, message: str, facts: Facts | None = None, *, stages: bool = True
) -> None:
    """Answer every call of the response in hand that has no answer yet, those of its further `stages` with it.

    A call that was ruled out is answered as such. `facts` are those of the calls, as far as anybody has surveyed them.
    """
    open_turn, program = session.state.open, session.state.program
    judgement = open_turn.judgement if open_turn is not None else None
    ruled_out = {v.call: v for v in judgement.verdicts if v.standing is not Standing.ALLOW} if judgement else {}
    left = list(open_turn.unanswered.values()) if open_turn is not None else []
    if stages and program is not None:
        left += [program.calls[place] for place in program.find_waiting()]
    for call in left:
        verdict, known = ruled_out.get(call.id), (facts or {}).get(call.id)
        why: tuple[AnswerCode, str] = (verdict.ruling.code, verdict.ruling.message) if verdict else (code, message)
        ruling: RulingWord = verdict.standing.value if verdict else "not_run"
        await session.record(draft_answer(call, known, *why, ruling=ruling))


async def run_call(session: Session, open_turn: OpenTurn, in_hand: TurnInHand, verdict: Verdict) -> None:
    """Run one allowed call, or answer why not. A call that was ruled out is left to be answered as such."""
    if verdict.standing is not Standing.ALLOW:
        return
    facts = in_hand.facts[verdict.call]
    prefetched = take_prefetched(session, open_turn, facts)
    if prefetched is None and (reason := reason_not_to_run(session, open_turn, in_hand, facts)):
        await session.record(draft_answer(facts.call, facts, *reason))
        return
    permit = Permit(verdict.call, verdict.digest, in_hand.judged, in_hand.turn.survey_hash)
    done = await execute(session, permit, facts, prefetched=prefetched)
    if isinstance(done, CallNotStarted):
        await session.record(draft_answer(facts.call, facts, done.code, done.message))


def take_prefetched(session: Session, open_turn: OpenTurn, facts: CallFacts) -> PrefetchedResult | None:
    """Return the early read that shows what this call would, None where there is none. It serves once."""
    found = session.prefetched.pop((open_turn.seq, facts.call.digest), None)
    return found if found is not None and not find_changed_resource(found.survey, facts.survey, {}) else None


def reason_not_to_run(
    session: Session, open_turn: OpenTurn, in_hand: TurnInHand, facts: CallFacts
) -> tuple[NotRunCode, str] | None:
    """Return code and message when an allowed call does not run after all."""
    task, limits = session.state.task, session.policy.limits
    assert task is not None
    if facts.changes and (session.state.dry_run or open_turn.dry_run):
        return "not_run_dry_run", "a dry run: this was judged and would have run"
    if facts.changes and (open_turn.change_not_made or is_after_refused_change(open_turn, in_hand, facts.call)):
        return "not_run_after_change_not_made", "an earlier change of this response was not made; send it again"
    bound = limits.identical_changes if facts.changes else limits.identical_observations
    if bound and task.runs.get(facts.call.digest, 0) >= bound:
        return "not_run_loop", f"this identical call ran {bound} times and nothing changed; do something else"
    if limits.tool_calls and task.used["tool_calls"] >= limits.tool_calls:
        return "not_run_budget", "the task has used all its tool calls"
    return None


def is_after_refused_change(open_turn: OpenTurn, in_hand: TurnInHand, call: ToolCall) -> bool:
    """Whether a change before the call was ruled out; in a block its own sequence says what that stops."""
    assert in_hand.judgement is not None
    for verdict in in_hand.judgement.verdicts:
        if verdict.call == call.id:
            return False
        refused = verdict.standing is not Standing.ALLOW and verdict.call not in open_turn.in_blocks
        if refused and in_hand.facts[verdict.call].changes:
            return True
    return False


def draft_answer(
    call: ToolCall,
    facts: CallFacts | None,
    code: AnswerCode,
    message: str,
    *,
    ruling: RulingWord = "not_run",
    gate: str = "",
    remedy: Remedy | None = None,
    observed: RemedyResult | None = None,
) -> Draft:
    """Return the answer to a call that did not run; `facts` is None where nobody has surveyed what it would do."""
    body = CallAnswered(
        call=call.id,
        tool=call.name[:128],
        target=facts.target if facts else "",
        ruling=ruling,
        code=code,
        message=message,
        change=facts.changes if facts else False,
        gate=gate,
        remedy=remedy,
        observed=observed,
    )
    return Draft(body, "foregate")


T = TypeVar("T")

_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.REPOSITORY)


class Scheduler:
    """The blocks of a response under way.

    At most `limits.parallel_calls` run at the same time. A call that is in the way of one named before it waits for it,
    whichever blocks they are in; as it only ever waits for earlier ones, none waits for ever.
    """

    def __init__(self, session: Session, open_turn: OpenTurn, in_hand: TurnInHand) -> None:
        judgement, order = in_hand.judgement, open_turn.response.order
        assert judgement is not None
        assert order is not None
        self._session, self._open, self._in_hand = session, open_turn, in_hand
        self._calls = open_turn.response.calls
        self._block = order.fit_to(len(self._calls))
        self._verdicts = {verdict.call: verdict for verdict in judgement.verdicts}
        self._room = asyncio.Semaphore(session.policy.limits.parallel_calls)
        places = [place for place in self._block.find_places() if self._calls[place].id in in_hand.facts]
        self._over = {place: asyncio.Event() for place in places}
        self._before = {
            place: [other for other in places[:at] if self.collide(other, place)] for at, place in enumerate(places)
        }

    def collide(self, first: int, second: int) -> bool:
        """Whether two calls are in each other's way."""
        facts = self._in_hand.facts
        return has_conflict(facts[self._calls[first].id], facts[self._calls[second].id])

    async def run(self) -> None:
        """Run what may run, and answer what a failure before it stops; a call that was ruled out is left to be told."""
        await self.item(self._block)

    async def item(self, item: int | Block) -> bool:
        """Run a call or a block; return whether all of it did what it should."""
        if isinstance(item, int):
            return await self.call(item)
        if item.kind == "parallel":
            return all(await run_together([self.item(inner) for inner in item.items]))
        going = True
        for inner in item.items:
            going = await self.item(inner) if going else await self.skip(inner)
        return going

    async def call(self, place: int) -> bool:
        """Run a call once what it would collide with is over."""
        call = self._calls[place]
        verdict = self._verdicts.get(call.id)
        if verdict is None:
            return False
        for other in self._before[place]:
            await self._over[other].wait()
        if call.id in self._open.unanswered:
            async with self._room:
                await run_call(self._session, self._open, self._in_hand, verdict)
        self._over[place].set()
        return call.id not in self._open.unanswered and call.id not in self._open.failed

    async def skip(self, item: int | Block) -> bool:
        """Answer the calls of an item that comes after a failure."""
        for place in (item,) if isinstance(item, int) else item.find_places():
            call = self._calls[place]
            verdict = self._verdicts.get(call.id)
            if verdict is None:
                continue
            if verdict.standing is Standing.ALLOW and call.id in self._open.unanswered:
                facts = self._in_hand.facts[call.id]
                await self._session.record(draft_answer(call, facts, "not_run_after_failure", AFTER_FAILURE))
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
    """Whether two calls must not run at the same time.

    Both touch one resource and one of them changes it; or one may touch anything; or one is a child task, which shares
    the task's budget.
    """
    if is_exclusive(first) or is_exclusive(second):
        return True
    if not (first.changes or second.changes):
        return False
    return any(has_overlap(mine, yours) for mine, yours in product(first.resources, second.resources))


def is_exclusive(facts: CallFacts) -> bool:
    """Whether a call can run beside no other."""
    return facts.effect is Effect.UNKNOWN or facts.call.name == DELEGATE.name


def has_overlap(first: SurveyedResource, second: SurveyedResource) -> bool:
    """Whether two accesses, one of them a change, are to one resource, or to a folder and something in it."""
    if not (first.access.changes or second.access.changes):
        return False
    if first.kind in _PATHS and second.kind in _PATHS:
        return is_within(first.id, second.id) or is_within(second.id, first.id)
    return first.resource == second.resource


def is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it."""
    return folder in (".", "") or path == folder or path.startswith(f"{folder.rstrip('/')}/")

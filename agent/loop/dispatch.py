"""Doing what a judgement allows, in written order or in the model's own blocks, and answering every call."""

from __future__ import annotations

from collections.abc import Sequence

from foregate.agent.loop.internal_calls import run_observation
from foregate.agent.loop.run_call import draft_answer, run_call
from foregate.agent.loop.scheduler import Scheduler, run_together
from foregate.agent.session.delegation import DELEGATE, ChildPaused
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.agent.session.turn_builder import Facts, TurnInHand
from foregate.evidence.state.dataflow import TOO_MANY
from foregate.evidence.state.task import OpenTurn
from foregate.schemas import strict_json
from foregate.schemas.event_body import AnswerCode, RemedyResult, RulingWord
from foregate.schemas.judgement import Standing, Verdict
from foregate.schemas.tool_call import ToolCall

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

"""Doing what a judgement allows, in written order or in the model's own blocks, and answering every call."""

from __future__ import annotations

from collections.abc import Sequence

from foregate.agent.loop.internal_calls import observe
from foregate.agent.loop.run_call import answered, run_one
from foregate.agent.loop.scheduler import InOrder, together
from foregate.agent.session.delegation import DELEGATE, ChildPaused
from foregate.agent.session.result import Outcome
from foregate.agent.session.resume import restored
from foregate.agent.session.session import Session
from foregate.evidence.state.dataflow import TOO_MANY
from foregate.evidence.state.task import OpenTurn
from foregate.schemas import strict_json
from foregate.schemas.call_events import Observed
from foregate.schemas.judgement import Verdict
from foregate.schemas.ruling import Standing
from foregate.schemas.tool_call import ToolCall

_ENDED = "the process ended before this was done; send it again if still wanted"


async def carry_out(session: Session, open_turn: OpenTurn) -> Outcome | None:
    """Run what may run, look where a hold names a look as its cure, and answer every call of the response."""
    judgement = open_turn.judgement
    assert judgement is not None
    try:
        known = all(verdict.call in session.facts for verdict in judgement.verdicts)
        if not (known or await restored(session, open_turn)):
            await pick_up(session, open_turn)
            return None
        for call in [call for call in open_turn.unanswered.values() if call.id in session.state.in_flight]:
            if await observe(session, call, "runner", open_turn.judged) is None:
                await session.record(answered(session, call, "not_run_cancelled", _ENDED))
        waiting = [verdict for verdict in judgement.verdicts if verdict.call in open_turn.unanswered]
        loose = [verdict for verdict in waiting if verdict.call not in open_turn.in_blocks]
        for group in groups(session, loose):
            if len(group) == 1:
                await run_one(session, open_turn, group[0])
            else:
                await together([run_one(session, open_turn, verdict) for verdict in group])
        if open_turn.in_blocks:
            await InOrder(session, open_turn).run()
    except ChildPaused as child:
        return await session.paused(child.outcome)
    for verdict in [v for v in waiting if v.standing is not Standing.ALLOW]:
        await refuse(session, open_turn, verdict)
    await give_up(session, "not_run_too_many", TOO_MANY, stages=False)
    return None


async def pick_up(session: Session, open_turn: OpenTurn) -> None:
    """Go on with a turn an earlier process judged whose leave has lapsed: looks are taken, changes are not made."""
    judgement = open_turn.judgement
    assert judgement is not None
    for verdict in judgement.verdicts:
        call = open_turn.unanswered.get(verdict.call)
        if call is not None and verdict.standing is Standing.ALLOW:
            await observe(session, call, "runner", open_turn.judged)
    await give_up(session, "not_run_cancelled", _ENDED, stages=False)


def groups(session: Session, verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    """Split into barriers: neighbouring observations together, every change alone, and every child task."""
    bound = session.policy.limits.parallel_calls
    result: list[list[Verdict]] = []
    for verdict in verdicts:
        together = result and len(result[-1]) < bound and not changes(session, result[-1][0])
        if together and not changes(session, verdict):
            result[-1].append(verdict)
        else:
            result.append([verdict])
    return result


def changes(session: Session, verdict: Verdict) -> bool:
    """Whether the call of a verdict has a side effect, or shares the task's budget as a child task does."""
    facts = session.facts[verdict.call]
    return facts.changes or facts.call.name == DELEGATE.name


async def refuse(session: Session, open_turn: OpenTurn, verdict: Verdict) -> None:
    """Answer a held or denied call, with what its remedy shows when that is a look nobody else takes."""
    observed = await look(session, open_turn, verdict) if verdict.ruling.remedy else None
    await session.record(
        answered(
            session,
            session.facts[verdict.call].call,
            verdict.ruling.code,
            verdict.ruling.message,
            ruling=verdict.standing.value,
            gate=verdict.gate,
            remedy=verdict.ruling.remedy,
            observed=observed,
        )
    )


async def look(session: Session, open_turn: OpenTurn, verdict: Verdict) -> Observed | None:
    """Perform a remedy that only observes; None when it does not run."""
    remedy = verdict.ruling.remedy
    assert remedy is not None
    call = ToolCall.of(remedy.tool, remedy.arguments, id=f"{verdict.call}.remedy")
    if read_already(session, open_turn, call):
        return None
    result = await observe(session, call, "runner", open_turn.judged)
    if result is None:
        return None
    output = strict_json.scrub(result.content)
    return Observed(tool=call.name, arguments=dict(remedy.arguments), ok=result.ok, output=output)


def read_already(session: Session, open_turn: OpenTurn, remedy: ToolCall) -> bool:
    """Whether a call of the same response, or the remedy of one, observed the same resource."""
    wanted = {r.resource for r in session.surveyor.look(remedy, session.state).resources}
    return any(
        not facts.changes and wanted & {resource.resource for resource in facts.resources}
        for call_id, facts in session.facts.items()
        if call_id in open_turn.started
    )


async def give_up(session: Session, code: str, message: str, *, stages: bool = True) -> None:
    """Answer every call of the response in hand that has no answer yet, those of its further `stages` with it.

    A call that was ruled out is answered as such.
    """
    open_turn, program = session.state.open, session.state.program
    judgement = open_turn.judgement if open_turn is not None else None
    ruled_out = {v.call: v for v in judgement.verdicts if v.standing is not Standing.ALLOW} if judgement else {}
    left = list(open_turn.unanswered.values()) if open_turn is not None else []
    if stages and program is not None:
        left += [program.calls[place] for place in program.waiting()]
    for call in left:
        verdict = ruled_out.get(call.id)
        why = (verdict.ruling.code, verdict.ruling.message) if verdict else (code, message)
        await session.record(answered(session, call, *why, ruling=verdict.standing.value if verdict else "not_run"))

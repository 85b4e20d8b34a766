"""Doing what a judgement allows, in written order, and answering every call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from foregate.agent.child import DELEGATE, ChildPaused
from foregate.agent.executor import NotStarted, execute
from foregate.agent.observe import observe
from foregate.agent.outcome import Outcome
from foregate.agent.recovery import restored
from foregate.agent.session import Session
from foregate.agent.task_state import OpenTurn
from foregate.schemas import strict_json
from foregate.schemas.call_facts import CallFacts
from foregate.schemas.event import Draft
from foregate.schemas.judgement import Verdict
from foregate.schemas.permit import Permit
from foregate.schemas.ruling import Remedy, Standing
from foregate.schemas.strict_json import Json
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
                await session.record(answered(session.facts[call.id], "not_run_cancelled", _ENDED))
        waiting = [verdict for verdict in judgement.verdicts if verdict.call in open_turn.unanswered]
        for group in groups(session, waiting):
            if len(group) == 1:
                await run_one(session, open_turn, group[0])
            else:
                await asyncio.gather(*(run_one(session, open_turn, verdict) for verdict in group))
    except ChildPaused as child:
        return await session.paused(child.outcome)
    for verdict in [v for v in waiting if v.standing is not Standing.ALLOW]:
        await refuse(session, open_turn, verdict)
    await give_up(session, "not_run_too_many", "too many calls in one response; send this one again")
    return None


async def pick_up(session: Session, open_turn: OpenTurn) -> None:
    """Go on with a turn an earlier process judged whose leave has lapsed: looks are taken, changes are not made."""
    judgement = open_turn.judgement
    assert judgement is not None
    for verdict in judgement.verdicts:
        call = open_turn.unanswered.get(verdict.call)
        if call is not None and verdict.standing is Standing.ALLOW:
            await observe(session, call, "runner", open_turn.judged)
    await give_up(session, "not_run_cancelled", _ENDED)


def groups(session: Session, verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    """Split into barriers: neighbouring observations together, every change alone, and every child task."""
    bound = session.policy.limits.parallel_observations
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


async def run_one(session: Session, open_turn: OpenTurn, verdict: Verdict) -> None:
    """Run one allowed call, or answer why not; a change that was not allowed stops later changes."""
    facts = session.facts[verdict.call]
    if verdict.standing is not Standing.ALLOW:
        open_turn.change_not_made = open_turn.change_not_made or facts.changes
        return
    if reason := not_now(session, open_turn, facts):
        code, message = reason
        await session.record(answered(facts, code, message))
        return
    permit = Permit(verdict.call, verdict.digest, open_turn.judged, open_turn.survey_hash)
    done = await execute(session, permit, facts)
    if isinstance(done, NotStarted):
        await session.record(answered(facts, done.code, done.message))


def not_now(session: Session, open_turn: OpenTurn, facts: CallFacts) -> tuple[str, str] | None:
    """Return code and message when an allowed call does not run after all."""
    task, limits = session.state.task, session.policy.limits
    assert task is not None
    if facts.changes and (session.state.dry_run or open_turn.dry_run):
        return "not_run_dry_run", "a dry run: this was judged and would have run"
    if facts.changes and open_turn.change_not_made:
        return "not_run_after_change_not_made", "an earlier change of this response was not made; send it again"
    bound = limits.identical_changes if facts.changes else limits.identical_observations
    if bound and task.runs.get(facts.call.digest, 0) >= bound:
        return "not_run_loop", f"this identical call ran {bound} times and nothing changed; do something else"
    if limits.tool_calls and task.used["tool_calls"] >= limits.tool_calls:
        return "not_run_budget", "the task has used all its tool calls"
    return None


async def refuse(session: Session, open_turn: OpenTurn, verdict: Verdict) -> None:
    """Answer a held or denied call, with what its remedy shows when that is a look nobody else takes."""
    facts = session.facts[verdict.call]
    observed = await look(session, open_turn, verdict) if verdict.ruling.remedy else None
    await session.record(
        answered(
            facts,
            verdict.ruling.code,
            verdict.ruling.message,
            ruling=verdict.standing.value,
            gate=verdict.gate,
            remedy=verdict.ruling.remedy,
            observed=observed,
        )
    )


async def look(session: Session, open_turn: OpenTurn, verdict: Verdict) -> Json:
    """Perform a remedy that only observes; None when it does not run."""
    remedy = verdict.ruling.remedy
    assert remedy is not None
    call = ToolCall.of(remedy.tool, remedy.arguments, id=f"{verdict.call}.remedy")
    if read_already(session, open_turn, call):
        return None
    result = await observe(session, call, "runner", open_turn.judged)
    if result is None:
        return None
    return {
        "tool": call.name,
        "arguments": dict(remedy.arguments),
        "ok": result.ok,
        "output": strict_json.scrub(result.content),
    }


def read_already(session: Session, open_turn: OpenTurn, remedy: ToolCall) -> bool:
    """Whether a call of the same response, or the remedy of one, observed the same resource."""
    wanted = {r.resource for r in session.surveyor.look(remedy, session.state).resources}
    return any(
        not facts.changes and wanted & {resource.resource for resource in facts.resources}
        for call_id, facts in session.facts.items()
        if call_id in open_turn.started
    )


def answered(
    facts: CallFacts,
    code: str,
    message: str,
    *,
    ruling: str = "not_run",
    gate: str = "",
    remedy: Remedy | None = None,
    observed: Json = None,
) -> Draft:
    """Return the answer to a call that did not run."""
    body: dict[str, Json] = {
        "call": facts.call.id,
        "tool": facts.call.name[:128],
        "target": facts.target,
        "ruling": ruling,
        "code": code,
        "message": message,
        "change": facts.changes,
    }
    if gate:
        body["gate"] = gate
    if remedy is not None:
        body["remedy"] = {"tool": remedy.tool, "arguments": dict(remedy.arguments)}
    if observed is not None:
        body["observed"] = observed
    return Draft("call_answered", "foregate", body)


async def give_up(session: Session, code: str, message: str) -> None:
    """Answer every call of the open response that has no answer yet; a call that was ruled out is answered as such."""
    open_turn = session.state.open
    if open_turn is None:
        return
    for call in list(open_turn.unanswered.values()):
        verdict = (
            next((v for v in open_turn.judgement.verdicts if v.call == call.id), None) if open_turn.judgement else None
        )
        ruled_out = verdict is not None and verdict.standing is not Standing.ALLOW
        facts = session.facts.get(call.id)
        body = {
            "call": call.id,
            "tool": call.name[:128],
            "target": facts.target if facts else "",
            "ruling": verdict.standing.value if verdict and ruled_out else "not_run",
            "code": verdict.ruling.code if verdict and ruled_out else code,
            "message": verdict.ruling.message if verdict and ruled_out else message,
            "change": facts.changes if facts else False,
        }
        await session.record(Draft("call_answered", "foregate", body))

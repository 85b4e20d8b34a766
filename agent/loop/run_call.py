"""Running one call that was judged, or answering why it does not run."""

from __future__ import annotations

from foregate.agent.effects.executor import NotStarted, execute
from foregate.agent.session.prefetched import Look
from foregate.agent.session.session import Session
from foregate.agent.survey.surveyor import moved_on
from foregate.evidence.state.task import OpenTurn
from foregate.schemas.call_events import CallAnswered, Observed, RulingWord
from foregate.schemas.call_facts import CallFacts
from foregate.schemas.event import Draft
from foregate.schemas.judgement import Verdict
from foregate.schemas.permit import Permit
from foregate.schemas.ruling import Remedy, Standing
from foregate.schemas.tool_call import ToolCall


async def run_one(session: Session, open_turn: OpenTurn, verdict: Verdict) -> None:
    """Run one allowed call, or answer why not; a change that was not allowed stops later changes."""
    facts = session.facts[verdict.call]
    if verdict.standing is not Standing.ALLOW:
        if facts.changes:
            open_turn.not_made(verdict.call)
        return
    look = taken(session, open_turn, facts)
    if look is None and (reason := not_now(session, open_turn, facts)):
        code, message = reason
        await session.record(answered(session, facts.call, code, message))
        return
    permit = Permit(verdict.call, verdict.digest, open_turn.judged, open_turn.survey_hash)
    done = await execute(session, permit, facts, look=look)
    if isinstance(done, NotStarted):
        await session.record(answered(session, facts.call, done.code, done.message))


def taken(session: Session, open_turn: OpenTurn, facts: CallFacts) -> Look | None:
    """Return the look that was taken early and shows what this call would, None where there is none. It serves once."""
    look = session.looks.pop((open_turn.seq, facts.call.digest), None)
    return look if look is not None and not moved_on(look.survey, facts.survey, {}) else None


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


def answered(
    session: Session,
    call: ToolCall,
    code: str,
    message: str,
    *,
    ruling: RulingWord = "not_run",
    gate: str = "",
    remedy: Remedy | None = None,
    observed: Observed | None = None,
) -> Draft:
    """Return the answer to a call that did not run, whether or not anybody has looked what it would do."""
    facts = session.facts.get(call.id)
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

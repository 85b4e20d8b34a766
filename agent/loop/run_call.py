"""Running one call that was judged, or answering why it does not run."""

from __future__ import annotations

from foregate.agent.effects.executor import CallNotStarted, execute
from foregate.agent.session.prefetched import PrefetchedResult
from foregate.agent.session.session import Session
from foregate.agent.session.turn_builder import TurnInHand
from foregate.agent.survey.surveyor import find_changed_resource
from foregate.evidence.state.task import OpenTurn
from foregate.schemas.codes import NotRunCode
from foregate.schemas.event import Draft
from foregate.schemas.event_body import AnswerCode, CallAnswered, RemedyResult, RulingWord
from foregate.schemas.judgement import Remedy, Standing, Verdict
from foregate.schemas.tool_call import CallFacts, Permit, ToolCall


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
    found = session.prefetched.take(open_turn.seq, facts.call.digest)
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

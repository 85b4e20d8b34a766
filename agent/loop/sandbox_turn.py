"""What a program changed in its sandbox, judged as a turn of its own: applied, or thrown away."""

from __future__ import annotations

from msgspec.structs import replace

from foregate.agent.loop.answers import draft_answer
from foregate.agent.loop.machine_runner import MachineRunner
from foregate.agent.session.result import CallNotStarted, ChildPaused, RunResult
from foregate.agent.session.session import Session
from foregate.agent.session.turn_builder import TurnInHand
from foregate.evidence.state.task import OpenSandbox, OpenTurn
from foregate.gates.prelude import judge
from foregate.schemas.event import Draft
from foregate.schemas.event_body import RemedyResult
from foregate.schemas.judgement import Need, Standing, Verdict
from foregate.schemas.sandbox import SandboxedChanges
from foregate.schemas.tool_call import CallFacts, Permit

_GONE = "the sandbox in which this ran is gone, and nothing of it was kept; send it again if still wanted"
_NOTHING = "Nothing of what it did was kept."


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

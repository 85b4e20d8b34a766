"""After an answer that follows changes: look where a look can tell, judge what was promised, and say what is not so."""

from __future__ import annotations

from msgspec.structs import replace

from foregate.agent.loop.internal_calls import run_observation
from foregate.agent.session.session import Session
from foregate.evidence.state.criteria import build_checks, build_observations
from foregate.evidence.state.task import OpenTurn, TaskState
from foregate.gates.prelude import judge_answer


async def verify_promises(session: Session, open_turn: OpenTurn) -> bool:
    """Check the plan's promises and record the verdict; True when the model is told what is still to be shown."""
    task, policy = session.state.task, session.policy
    assert task is not None
    if policy.postlude.mode == "off" or task.plan is None or not task.plan.requires_verification or not task.changed:
        return False
    for number, call in enumerate(build_observations(task), start=1):
        await run_observation(session, replace(call, id=f"p{open_turn.seq}.{number}"), "postlude", open_turn.seq)
    turn = session.turns.build_own_turn(open_turn.seq, (), "postlude", open_turn.seq).turn
    turn = replace(turn, text=open_turn.response.text, checks=build_checks(task, session.state.ledger))
    judgement = judge_answer(turn, policy)
    pending = judgement.decisions[0].code == "verification_pending"
    notice = f"{judgement.decisions[0].summary}. Show it, or say plainly that it is not so." if pending else ""
    await session.record(session.turns.draft_judged(turn, judgement, notice=notice))
    return pending


def build_remark(task: TaskState) -> str:
    """Return the line Foregate adds to an answer where something failed, was held, is unknown or unverified, or ""."""
    lines = [f"`{' '.join(key).strip()}` {what}" for key, what in task.trouble.items()]
    code, summary = task.verdict
    if code == "unverified":
        lines.append(f"unverified: {summary}")
    return f"[Foregate: {'; '.join(lines)}]" if lines else ""

"""Defects known from systems of this kind, each as a truth about this one."""

from __future__ import annotations

import json

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import answers, calls, says
from foregate.schemas.event import NeedRaised, TurnJudged
from foregate.schemas.event_body import CallAnswered, ToolFinished
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.telemetry.queries.decisions import build_notes, read_decisions
from tests.agent.corpus import BOB, EDIT, PLAN, READ, REQUEST, REVIEWED, SEND, STORIES, TALK, YES, events_of
from tests.agent.world import World, plan_json
from tests.policies import policy_with

REPLAN = answers({"verdict": "replan", "issues": ["it is the wrong Bob"], "summary": "no"})
LS = ("read_file", {"path": "b.txt"})


async def test_a_call_the_critic_rejected_stays_rejected_when_it_comes_again_unchanged() -> None:
    world = World(policy=policy_with(REVIEWED))
    argued = calls(SEND, text="This is right: the person named this Bob, and the critic is wrong about him.")
    session = await world.open([calls(SEND, text=TALK), PLAN, REPLAN, argued, says("ok")], [])
    await run(session, REQUEST)
    assert world.sent == []
    first, again = [message.text for message in session.state.messages if message.role == "tool"]
    assert "it is the wrong Bob; change the call, or look at what the issues name" in first
    assert "say why" not in first
    assert "refused_before" in again
    assert "sent again as it is, it stays held" in again


async def test_a_plan_the_critic_rejected_never_comes_into_force() -> None:
    world = World(policy=policy_with(REVIEWED))
    other = ("send", {"to": BOB, "text": "another text"})
    session = await world.open([calls(SEND, text=TALK), PLAN, REPLAN, calls(other), PLAN, YES, says("ok")], ["yes"])
    await run(session, REQUEST)
    raised = [body.need.gate for body in await world.bodies(NeedRaised)]
    assert raised == ["plan", "critique", "plan", "critique", "approval"]


async def test_a_plan_for_another_target_is_rejected() -> None:
    world = World()
    bad = answers(plan_json("send", "eve@example.org"))
    session = await world.open([calls(SEND, text=TALK), bad, bad, says("ok")], [])
    await run(session, REQUEST)
    assert "first_action_target_mismatch" in session.state.messages[-2].text
    assert world.sent == []


async def test_reading_something_disarms_no_gate() -> None:
    world = World(policy=policy_with(REVIEWED))
    session = await world.open([calls(LS), calls(SEND), calls(SEND, text=TALK), PLAN, YES, says("ok")], ["yes"])
    await run(session, REQUEST)
    raised = [body.need.gate for body in await world.bodies(NeedRaised)]
    assert raised == ["plan", "critique", "approval"]


async def test_a_blocked_call_is_never_recorded_as_a_success() -> None:
    for story in STORIES:
        blocked: set[str] = set()
        for event in await events_of(story):
            if isinstance(event.body, CallAnswered):
                blocked.add(event.body.call)
            if isinstance(event.body, ToolFinished) and event.body.ok:
                assert event.body.call not in blocked


async def test_every_gate_that_fires_leaves_a_row_and_those_that_retry_leave_a_note() -> None:
    for story in STORIES:
        points = list(read_decisions(await events_of(story)))
        assert points
        codes = {point.code for point in points}
        noted = {note.code for note in build_notes(points)}
        for code in ("narration_required", "uncertainty_clarification", "plan_rejected", "plan_unavailable"):
            assert (code in noted) == (code in codes)


async def test_an_accepted_amendment_keeps_what_the_plan_covered_before() -> None:
    world = World(policy=policy_with(REVIEWED))
    carol = ("send", {"to": "carol@example.org"})
    more = answers(plan_json("send", "carol@example.org"))
    again = ("send", {"to": "carol@example.org", "text": "2"})
    model = [calls(SEND, text=TALK), PLAN, YES, calls(carol), more, calls(again), more, says("ok")]
    session = await world.open(model, ["yes", "yes", "yes"])
    await run(session, f"{REQUEST} and carol@example.org")
    revisions = [body.plan.revision for body in await world.bodies(TurnJudged) if body.plan is not None]
    assert revisions == [1, 2, 3]


async def test_the_session_counts_revisions_whatever_number_the_model_writes() -> None:
    world = World()
    plan = plan_json("send", BOB) | {"version": 41}
    session = await world.open([calls(SEND, text=TALK), answers(plan), YES, says("ok")], ["yes"])
    await run(session, REQUEST)
    plans = [body.plan for body in await world.bodies(TurnJudged) if body.plan is not None]
    assert [plan.revision for plan in plans] == [1]


async def test_a_read_and_an_edit_together_run_the_read_and_hold_only_the_edit() -> None:
    world = World()
    session = await world.open([calls(READ, EDIT, text=TALK), calls(EDIT), says("ok")])
    await run(session, "fix the typo in a.txt")
    answers_ = [json.loads(message.text) for message in session.state.messages if message.role == "tool"]
    assert [answer["ok"] for answer in answers_] == [True, False, True]


async def test_a_question_pauses_the_task_answers_every_call_and_is_not_asked_again() -> None:
    world = World(policy=policy_with({"uncertainty.threshold": 300}))
    odd = ("note", {"key": "zebra"})
    session = await world.open([calls(odd, text=TALK), calls(odd), says("noted")], [])
    outcome = await run(session, "do it for k")
    assert outcome.status == "needs_input"
    assert session.state.open is None
    assert (await run(session, "yes, the zebra")).status == "completed"
    started = [event for event in await world.log.read("s") if event.kind == "task_started"]
    assert (len(started), len(world.effects)) == (1, 1)


async def test_the_safety_budget_runs_out_for_planner_and_critic_and_then_a_person_is_asked() -> None:
    world = World(policy=policy_with({**REVIEWED, "safety.model_calls": 1}))
    seen: list[Need] = []

    def note(need: Need) -> Reply:
        seen.append(need)
        return Reply("yes")

    session = await world.open([calls(SEND, text=TALK), PLAN, says("ok")], [note])
    await run(session, REQUEST)
    assert (seen[0].code, world.sent) == ("critique_skipped_budget", [BOB])


async def test_a_failed_change_is_named_under_the_answer_whatever_the_model_claims() -> None:
    world = World()
    wrong = ("edit_file", {"path": "a.txt", "old": "no such text", "new": "x"})
    session = await world.open([calls(READ, text=TALK), calls(wrong), says("All fixed!")])
    outcome = await run(session, "fix a.txt")
    assert outcome.text.startswith("All fixed!")
    assert "`edit_file a.txt` failed" in outcome.text


async def test_a_call_nobody_can_approve_is_judged_once_and_then_ends_the_task() -> None:
    world = World()
    session = await world.open([calls(SEND, text=TALK), calls(SEND), calls(SEND)])
    outcome = await run(session, REQUEST)
    assert outcome.status == "blocked"
    assert "need_raised" not in await world.kinds()


async def test_a_denied_call_sent_again_and_again_ends_the_task() -> None:
    world = World()
    outside = ("read_file", {"path": "../secrets"})
    session = await world.open([calls(outside), calls(outside)])
    assert (await run(session, "go")).status == "blocked"


async def test_a_session_that_goes_on_after_its_end_can_end_again() -> None:
    from foregate.telemetry.queries.verify import verify_rows

    world = World()
    first = await world.open([says("hello")])
    await run(first, "hello")
    await first.close()
    again = await world.open([says("hello again")], resume=True)
    await run(again, "hello")
    await again.close()
    assert verify_rows(world.log.lines("s"), "s").proven

"""Whole sessions under the shipped policy `classic`, killed and resumed too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from foregate.agent.loop.runner import run, run_to_outcome, take_step
from foregate.agent.models.scripted import ScriptedPerson, Step, answers, calls, says
from foregate.agent.session.session import Session
from foregate.agent.tools.commands import run_shell
from foregate.agent.workspace.work_sandbox import find_work_tier
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.gates.prelude import build_prelude
from foregate.gates.replay.redecide import judge_any_turn
from foregate.policy.source.load import load_policy_layers, resolve_policy_file
from foregate.schemas import strict_json
from foregate.schemas.errors import ModelError
from foregate.schemas.event import Event, NeedRaised, TurnJudged
from foregate.schemas.judgement import Judgement
from foregate.schemas.strict_json import Json
from tests.agent.corpus import BOB, EDIT, READ, REQUEST, TALK, classic, classic_drift
from tests.agent.world import ACCEPT, World, plan_json
from tests.conftest import OpenSession
from tests.events import bodies

POLICY = load_policy_layers(resolve_policy_file("classic")).policy
GREET = ("send", {"to": BOB, "text": "hello"})
PLAN = answers(plan_json("edit_file", "a.txt"))


async def held_by(world: World) -> list[tuple[tuple[str, str], ...]]:
    """Return for each turn of the model what stands of its calls: standing and code."""
    return [
        tuple((verdict.standing.value, verdict.ruling.code) for verdict in body.judgement.verdicts)
        for body in await world.bodies(TurnJudged)
        if body.turn.actor == "model"
    ]


async def asked(world: World) -> list[tuple[str, int]]:
    """Return who was asked about how many calls, in order."""
    return [(body.need.who, len(body.need.calls)) for body in await world.bodies(NeedRaised)]


async def judged_again(session: Session, events: list[Event]) -> None:
    """Fail unless every recorded turn, judged again, gives the bytes of the log."""

    def each() -> Iterator[tuple[bytes, bytes]]:
        bench = build_prelude(session.policy, session.catalogue)
        for turn in read_judged_turns(events):
            again = judge_any_turn(turn.turn, session.policy, bench)
            assert isinstance(again, Judgement)
            yield (
                strict_json.encode_record(strict_json.dump(again)),
                strict_json.encode_record(strict_json.dump(turn.judgement)),
            )

    pairs = list(each())
    assert pairs
    assert all(again == before for again, before in pairs)


async def test_words_look_plan_and_critic_come_in_turn_and_each_hold_takes_its_whole_response() -> None:
    world = World()
    session = await classic(world)
    waits = ("hold", "not_asked_now")
    assert await held_by(world) == [
        (("hold", "narration_required"),),
        (waits, ("hold", "missing_pre_execution_evidence")),
        (("hold", "critique_rejected"), waits),
        (("allow", "validity_passed"),),
        (("allow", "validity_passed"),),
    ]
    assert await asked(world) == [("planner", 1), ("critic", 1), ("planner", 1), ("critic", 1), ("person", 1)]
    assert (world.workspace.files["a.txt"], world.sent) == (b"the cat", [BOB])
    await judged_again(session, list(await world.log.read("s")))


async def test_a_wish_nobody_can_make_out_takes_the_tools_away_for_the_task_and_no_longer() -> None:
    world = World()
    session = await classic_drift(world)
    drift = ("hold", "text_only_turn_side_effecting_tool_drift")
    assert await held_by(world) == [(("hold", "not_asked_now"), drift), (drift,)]
    assert [bool(request.tools) for request in session.model.requests] == [True, False, False]  # type: ignore[attr-defined]
    assert world.effects == []
    session.model = type(session.model)([says("I see.")])  # type: ignore[call-arg]
    await run(session, "and now?")
    assert session.model.requests[0].tools  # type: ignore[attr-defined]


async def test_the_tools_stay_away_when_the_process_ends_in_between() -> None:
    world = World(policy=POLICY)
    session = await world.open([calls(("note", {"key": "k"}), text=TALK)])
    await session.record_message("hello there")
    while (await world.kinds())[-1] != "call_answered":
        assert await take_step(session) is None
    await world.kill(session)
    again = await world.open([says("Hello.")], resume=True)
    assert (await run_to_outcome(again)).status == "completed"
    assert [(r.words_only, tuple(r.tools)) for r in again.model.requests] == [(True, ())]  # type: ignore[attr-defined]


async def test_a_plan_stays_the_task_s_only_one_when_the_process_ends_before_the_yes() -> None:
    world = World(policy=POLICY)
    session = await world.open([calls(READ, text=TALK), calls(EDIT), PLAN, calls(GREET)], [None])
    assert (await run(session, REQUEST)).status == "awaiting_approval"
    await world.kill(session)
    again = await world.open([says("both done")], ["yes"], resume=True)
    assert (await run_to_outcome(again)).status == "completed"
    assert await asked(world) == [("planner", 1), ("person", 1)]
    assert world.sent == [BOB]
    await judged_again(again, list(await world.log.read("s")))


async def test_a_read_held_with_others_again_and_again_is_no_repeated_hold_of_its_own() -> None:
    world = World(policy=POLICY)
    look, other = ("read_file", {"path": "b.txt"}), ("edit_file", {"path": "b.txt", "old": "teh", "new": "the"})
    model = [calls(look, EDIT, text=TALK), calls(look, ("nope", {})), calls(look, other), calls(look)]
    session = await world.open([*model, says("I could not.")])
    outcome = await run(session, "fix a.txt and b.txt")
    assert (outcome.status, "held twice" in outcome.report.blocker) == ("blocked", False)
    assert [turn[0][0] for turn in await held_by(world)] == ["hold", "hold", "hold", "allow"]


async def play_in_sandbox(open_session: OpenSession, workspace: Workspace, *steps: Step, **shell: Json) -> Session:
    """Return a session under `classic` in which a real command runs, and then what the steps say."""
    if find_work_tier(workspace, POLICY)["tier"] == "none":
        pytest.skip("this machine has no sandboxes")
    session = await open_session(
        calls(("run_shell", {"timeout_ms": 20_000, **shell}), text=TALK),
        *steps,
        says("done"),
        tools=[run_shell(workspace, POLICY), *(tool for tool in World().tools() if tool.spec.name == "send")],
        policy=POLICY,
        person=ScriptedPerson(["yes", "yes"]),
    )
    assert (await run(session, f"make out.txt, then send {BOB} two greetings")).status == "completed"
    await judged_again(session, await session.log.read())
    return session


async def test_what_works_in_a_sandbox_is_not_the_first_change_that_is_planned_and_criticised(
    open_session: OpenSession, workspace: Workspace
) -> None:
    again = calls(("send", {"to": BOB, "text": "again"}))
    steps = calls(GREET), answers(plan_json("send", BOB)), answers(ACCEPT), again
    session = await play_in_sandbox(open_session, workspace, *steps, command="touch out.txt")
    events = await session.log.read()
    assert [body.need.who for body in bodies(events, NeedRaised)] == ["planner", "critic", "person", "person"]
    counted = [body.turn.counters for body in bodies(events, TurnJudged) if body.turn.actor == "model"]
    assert [(one.changes, one.contained_changes) for one in counted][-2:] == [(1, 1), (2, 1)]


async def test_a_command_with_access_that_went_on_without_a_plan_was_the_first_change(
    open_session: OpenSession, workspace: Workspace
) -> None:
    steps = ModelError("nobody answers"), calls(GREET)
    wanted: dict[str, Json] = {"command": "touch out.txt", "access": ["network:index.example"]}
    session = await play_in_sandbox(open_session, workspace, *steps, **wanted)
    events = await session.log.read()
    assert [body.need.who for body in bodies(events, NeedRaised)] == ["planner", "person", "person"]
    assert bodies(events, TurnJudged)[-1].turn.counters.contained_changes == 0

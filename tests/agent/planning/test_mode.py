"""Who plans a change: nobody, the planner for every change, or for all but a single one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson, answers, calls, says
from foregate.agent.planning.control import get_plan_state, roll_back_plans
from foregate.agent.planning.controller import PlanController
from foregate.agent.session.result import RunResult
from foregate.agent.session.session import Session
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.evidence.state.recorded_turns import rebuild_turn
from foregate.gates.prelude import judge
from foregate.schemas import strict_json
from foregate.schemas.event import Draft, Event, TurnJudged
from foregate.schemas.event_body import CallAnswered, PolicyChanged, TaskEnded, TaskStarted, ToolStarted
from foregate.schemas.judgement import Judgement, Need
from foregate.schemas.protocols import Reply
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed
from foregate.schemas.tool_call import ToolCall
from foregate.telemetry.log.memory_log import MemoryLog
from tests.agent.models.openai.scripted_server import ScriptedServer, message
from tests.agent.models.openai.test_model import model_at
from tests.agent.planning.plans import CONFIGURATION
from tests.agent.planning.test_worked_examples import wants, wire_plan, wire_task
from tests.agent.world import World
from tests.events import bodies
from tests.policies import policy_with

READ, EDIT = ("read_file", {"path": "a.txt"}), ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
EDIT_B = ("edit_file", EDIT[1] | {"path": "b.txt"})
DELEGATE = ("delegate", {"task": "mend a.txt"})
TALK, ASKED = "I will mend the typo in the file.", "fix the typo in a.txt"
ANSWER = answers({"answer": "Mended.", "plan": None})


def planned(*tasks: Mapping[str, Any]) -> Any:
    """Return the planner's answer as the scripted model gives it."""
    return says(json.loads(wire_plan("Mend the files", *tasks).bytes())["choices"][0]["message"]["content"])


PLAN = planned(wire_task(1, "Read it.", READ), wire_task(2, "Mend it.", EDIT, depends_on=[1]))


async def opened(
    world: World, model: Any, person: Any = None, *, mode: str = "plan", desk: bool = True, **more: Any
) -> Session:
    """Return a session of the world in a mode, with a desk."""
    driver = (lambda made: PlanController(made, CONFIGURATION, lambda role: made.model)) if desk else None
    session = await world.open(model, person, plan_driver=driver, **more)
    if session.state.mode != mode:
        await session.record(Draft(PolicyChanged(mode=mode), "person"))
    return session


async def codes(world: World, name: str = "s") -> list[str]:
    """Return the codes of the calls that did not run."""
    return [body.code for body in await world.bodies(CallAnswered, name)]


async def test_where_everything_is_planned_a_request_that_only_reads_needs_no_plan_and_no_person() -> None:
    world = World()
    session = await opened(world, [calls(READ), says("teh cat")])
    assert (await run(session, "what does a.txt say?")).text == "teh cat"
    assert "plan_proposed" not in await world.kinds()


async def test_where_everything_is_planned_an_edit_is_planned_confirmed_run_and_answered_in_one_task() -> None:
    world, person = World(), ScriptedPerson(["yes"])
    session = await opened(world, [calls(READ, EDIT, text=TALK), PLAN, ANSWER], person)
    outcome = await run(session, ASKED)
    assert (outcome.status, outcome.text) == ("completed", "Mended.")
    assert world.workspace.files["a.txt"] == b"the cat"
    kinds = await world.kinds()
    assert (kinds.count("task_started"), kinds.count("task_ended")) == (1, 1)
    assert await codes(world) == ["plan_required"]
    (need,) = person.needs
    assert (need.who, need.request["plan"]["goal"]) == ("person", "Mend the files")
    planner = json.loads(session.model.requests[1].messages[-1].text)  # type: ignore[attr-defined]
    assert planner["request"] == ASKED
    assert planner["already"]["looked_at"][0]["output"] == "teh cat"
    assert planner["already"]["held"] == [
        {"tool": "edit_file", "arguments": json.dumps(EDIT[1], separators=(",", ":"), sort_keys=True)}
    ]
    session.model.finish()  # type: ignore[attr-defined]


async def test_a_plan_that_is_declined_ends_the_task_and_changes_nothing() -> None:
    world = World()
    session = await opened(world, [calls(READ, EDIT, text=TALK), PLAN], [Reply("no", "not today")])
    outcome = await run(session, ASKED)
    assert (outcome.status, world.workspace.files["a.txt"]) == ("cancelled", b"teh cat")
    assert "not today" in outcome.report.blocker


async def test_without_a_person_the_plan_is_left_in_the_log_with_the_way_on() -> None:
    world = World()
    outcome = await run(await opened(world, [calls(READ, EDIT, text=TALK), PLAN]), ASKED)
    assert (outcome.status, world.workspace.files["a.txt"]) == ("blocked", b"teh cat")
    assert "foregate execute s" in outcome.report.need
    kinds = await world.kinds()
    assert ("plan_proposed" in kinds, "plan_confirmed" in kinds) == (True, False)


async def test_without_a_desk_the_model_is_told_and_answers_in_words() -> None:
    world = World()
    session = await opened(world, [calls(READ, EDIT, text=TALK), says("I would mend it.")], desk=False)
    outcome = await run(session, ASKED)
    assert outcome.text.startswith("I would mend it.")
    assert "plan_required" in session.state.messages[-2].text
    assert world.workspace.files["a.txt"] == b"teh cat"


async def test_one_change_of_a_task_is_made_at_once_and_the_second_is_planned() -> None:
    world, person = World(), ScriptedPerson(["yes"])
    second = planned(wire_task(1, "Mend b.", ("read_file", {"path": "b.txt"}), EDIT_B))
    model = [calls(READ, text=TALK), calls(EDIT), calls(EDIT_B), second, ANSWER]
    session = await opened(world, model, person, mode="auto")
    outcome = await run(session, "fix the typos in a.txt and b.txt")
    assert (outcome.status, len(person.needs)) == ("completed", 1)
    assert (world.workspace.files["a.txt"], world.workspace.files["b.txt"]) == (b"the cat", b"the dog")
    planner = json.loads(session.model.requests[3].messages[-1].text)  # type: ignore[attr-defined]
    assert [entry["tool"] for entry in planner["already"]["done"]] == ["edit_file"]
    assert await codes(world) == ["plan_required"]


async def test_two_changes_of_one_response_are_planned_together_where_one_would_run() -> None:
    world = World()
    session = await opened(world, [calls(READ, EDIT, EDIT_B, text=TALK), PLAN], ["no"], mode="auto")
    await run(session, "fix the typos in a.txt and b.txt")
    assert await codes(world) == ["plan_required", "plan_required"]
    assert world.workspace.files == {"a.txt": b"teh cat", "b.txt": b"teh dog"}


async def test_a_change_that_provably_left_everything_as_it_was_is_no_first_change() -> None:
    world = World()
    wrong = ("edit_file", {"path": "a.txt", "old": "nowhere", "new": "there"})
    session = await opened(world, [calls(READ, text=TALK), calls(wrong), calls(EDIT), says("ok")], mode="auto")
    assert (await run(session, ASKED)).status == "completed"
    assert world.workspace.files["a.txt"] == b"the cat"


async def test_a_further_plan_of_the_same_request_is_confirmed_on_its_own() -> None:
    world, person = World(), ScriptedPerson(["yes", "yes"])
    body = json.loads(planned(wire_task(1, "Mend b.", ("read_file", {"path": "b.txt"}), EDIT_B)).text)
    model = [calls(READ, EDIT, text=TALK), PLAN, answers({"answer": "Half.", "plan": body}), ANSWER]
    session = await opened(world, model, person)
    outcome = await run(session, ASKED)
    assert (outcome.status, outcome.text) == ("completed", "Mended.")
    assert [need.request["number"] for need in person.needs] == [1, 2]
    assert world.workspace.files["b.txt"] == b"the dog"
    assert (await world.kinds()).count("task_started") == 1
    assert await roll_back_plans(session, await get_plan_state(session)) == []
    assert world.workspace.files == {"a.txt": b"teh cat", "b.txt": b"teh dog"}, "both plans are taken back"


async def test_a_further_plan_needs_a_yes_even_where_a_harmless_one_needs_none() -> None:
    world, person = World(), ScriptedPerson(["no"])
    body = json.loads(planned(wire_task(1, "Mend b.", ("read_file", {"path": "b.txt"}), EDIT_B)).text)
    model = [calls(READ, EDIT, text=TALK), PLAN, answers({"answer": "Half.", "plan": body})]
    execution = CONFIGURATION.execution.model_copy(update={"confirmation": "dangerous"})
    session, trusting = await opened(world, model, person), CONFIGURATION.model_copy(update={"execution": execution})
    session.plan_driver = PlanController(session, trusting, lambda role: session.model)
    outcome = await run(session, ASKED)
    assert (outcome.status, outcome.report.done) == ("cancelled", ("edit_file a.txt",))
    assert world.workspace.files == {"a.txt": b"the cat", "b.txt": b"teh dog"}


async def test_a_person_edits_the_plan_and_hears_what_is_wrong_with_it_before_it_counts() -> None:
    world = World()
    mine = {"goal": "mine", "tasks": [{"id": 1, "tool": "read_file", "args": {"path": "a.txt"}}]}

    def broken(need: Need) -> Reply:
        return Reply("edit", json.dumps({"goal": "mine", "tasks": [{"id": 1, "tool": "nope", "args": {}}]}))

    person = ScriptedPerson([broken, Reply("edit", json.dumps(mine)), "yes"])
    session = await opened(world, [calls(READ, EDIT, text=TALK), PLAN, ANSWER], person)
    assert (await run(session, ASKED)).status == "completed"
    assert "nope" in str(person.needs[1].request["defects"])
    assert person.needs[2].request["plan"]["goal"] == "mine"
    assert world.workspace.files["a.txt"] == b"teh cat"


async def test_step_by_step_a_no_to_a_task_pauses_and_the_next_process_asks_again() -> None:
    world = World()
    session = await opened(world, [calls(READ, EDIT, text=TALK), PLAN], ["step", "yes", "no"])
    assert (await run(session, ASKED)).status == "paused"
    assert world.workspace.files["a.txt"] == b"teh cat"
    await world.kill(session)
    session = await opened(world, [ANSWER], ["yes"], resume=True)
    assert (await run_to_outcome(session)).status == "completed"
    assert world.workspace.files["a.txt"] == b"the cat"


async def test_a_question_left_open_waits_for_the_next_process_and_nothing_ran() -> None:
    world = World()
    session = await opened(world, [calls(READ, EDIT, text=TALK), PLAN], [None])
    assert (await run(session, ASKED)).status == "awaiting_approval"
    await world.kill(session)
    session = await opened(world, [ANSWER], ["yes"], resume=True)
    assert session.state.mode == "plan"
    assert (await run_to_outcome(session)).status == "completed"
    assert world.effects.count(ToolCall.of(*EDIT).digest) == 1


async def test_a_request_nobody_can_plan_asks_and_the_next_message_is_planned() -> None:
    world = World()
    tries = CONFIGURATION.planning.planning_tries
    model = [calls(READ, EDIT, text=TALK), *([says("no plan")] * tries), PLAN, ANSWER]
    session = await opened(world, model, ["yes"])
    assert (await run(session, ASKED)).status == "needs_input"
    assert (await run(session, "the one in a.txt")).status == "completed"
    assert json.loads(session.model.requests[-2].messages[-1].text)["already"]["said_before"] == [ASKED]  # type: ignore[attr-defined]


async def test_no_anyway_and_no_policy_lifts_it() -> None:
    gates = dict.fromkeys(("evidence", "plan", "critique", "narration", "drift", "uncertainty"), "off")
    world = World(policy=policy_with({f"{name}.mode": mode for name, mode in gates.items()}))
    session = await opened(world, [calls(EDIT), calls(EDIT), says("no")], ["anyway"], desk=False)
    person: Any = session.person
    person.replies, asked = [], []

    async def anyway(need: Need) -> Reply:
        asked.append(need)
        return Reply("stop" if asked[1:] else "anyway")

    person.answer = anyway
    await run(session, ASKED)
    assert world.workspace.files["a.txt"] == b"teh cat"
    assert [need.request["can_override"] for need in asked] == [False] * len(asked)


async def test_what_a_helper_does_is_no_way_around_the_plan() -> None:
    for mode in ("plan", "auto"):
        world = World()
        model = [calls(DELEGATE, text=TALK), calls(READ, EDIT, text=TALK), says("it is held"), says("I could not.")]
        session = await opened(world, model, mode=mode, desk=False)
        await run(session, ASKED)
        name = next(name for name in await world.log.sessions() if name != "s")
        assert await codes(world, name) == ["plan_required"]
        assert world.workspace.files["a.txt"] == b"teh cat"


async def test_a_confirmed_plan_that_delegates_lets_the_helper_change_nothing_and_goes_on_after_it() -> None:
    world = World()
    delegating = planned(
        wire_task(1, "Let a helper do it.", DELEGATE), wire_task(2, "Read b.", ("read_file", {"path": "b.txt"}))
    )
    model = [calls(READ, EDIT, text=TALK), delegating, calls(READ, EDIT, text=TALK), says("it is held"), ANSWER]
    session = await opened(world, model, ["yes"])
    assert (await run(session, ASKED)).text == "Mended."
    assert [step.status for step in (await get_plan_state(session)).steps.values()] == ["done", "done"]
    assert world.workspace.files["a.txt"] == b"teh cat"


async def test_a_session_nobody_gave_a_mode_leaves_no_trace_of_one() -> None:
    world = World()
    await run(await world.open([calls(READ, EDIT, text=TALK), says("ok")]), ASKED)
    events = await world.log.read("s")
    assert {body.turn.unplanned for body in bodies(events, TurnJudged)} == {None}
    assert "policy_changed" not in {event.kind for event in events}


OBSERVING = [READ, ("read_file", {"path": "b.txt"}), ("read_file", {"path": "none.txt"})]
CHANGING = [EDIT, EDIT_B, ("note", {"key": "k"}), ("send", {"to": "ann", "text": "hi"})]
RESPONSE = st.lists(
    st.sampled_from([*OBSERVING, *CHANGING, DELEGATE, ("nope", {}), ("edit_file", {"path": 3})]), max_size=4
)
PLANS = st.lists(st.sampled_from([READ, *CHANGING, DELEGATE]), min_size=1, max_size=3, unique_by=str)


def reply_of(request: Any, wanted: list[Any], listed: list[Any]) -> Any:
    """Return what a model gone wild answers to a request of any purpose."""
    match request.purpose:
        case "task_plan":
            return planned(*(wire_task(number, f"Task {number}.", one) for number, one in enumerate(listed, start=1)))
        case "plan_results":
            return ANSWER
        case "chat" if wanted:
            return calls(*wanted, text=TALK)
    return says("that is all")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(RESPONSE, min_size=1, max_size=5),
    PLANS,
    st.sampled_from(["yes", "no", None]),
    st.booleans(),
    st.sampled_from(["plan", "auto"]),
)
def test_nothing_with_an_effect_starts_outside_a_confirmed_plan(
    responses: list[list[Any]], listed: list[Any], choice: str | None, desk: bool, mode: str
) -> None:
    """Whatever a model sends: under `plan` no change starts unplanned, under `auto` at most one of each task."""

    async def played() -> list[list[Event]]:
        world, rest = World(), list(responses)

        def step(request: Any) -> Any:
            wanted = rest.pop(0) if rest and request.purpose == "chat" else []
            return reply_of(request, wanted, listed)

        class Person:
            async def answer(self, need: Need) -> Reply | None:
                return Reply(choice) if choice and need.gate == "task_plan" else Reply("yes") if choice else None

        session = await opened(world, ScriptedModel([step] * 60), Person() if choice else None, mode=mode, desk=desk)
        await run(session, "do what you like with a.txt and b.txt")
        return [list(await world.log.read(name)) for name in await world.log.sessions()]

    for events in asyncio.run(played()):
        running, free = False, 0
        for event in events:
            match event.body:
                case TaskStarted(depth=depth):
                    running, free = False, 1 if mode == "auto" and depth == 0 else 0
                case PlanConfirmed():
                    running = True
                case TaskEnded() | PlanProposed():
                    running = False
                case ToolStarted(side_effect="idempotent" | "at_most_once") if not running:
                    free -= 1
            assert free >= 0, "a change started that nobody had confirmed"


async def test_a_turn_that_was_held_for_want_of_a_plan_is_judged_the_same_from_its_log() -> None:
    world = World()
    session = await opened(world, [calls(READ, EDIT, text=TALK), says("no")], desk=False)
    await run(session, ASKED)
    events = {event.seq: event for event in await world.log.read("s")}
    judged = bodies(events.values(), TurnJudged)
    for body in judged:
        turn = rebuild_turn(body.turn, events.__getitem__)
        again = judge(turn, session.prelude)
        assert isinstance(again, Judgement)
        assert strict_json.dump(again) == strict_json.dump(body.judgement)
    held = rebuild_turn(judged[0].turn, events.__getitem__)
    free = judge(replace(held, unplanned=None), session.prelude)
    assert isinstance(free, Judgement)
    assert "plan_required" not in {decision.code for decision in free.decisions}


async def served(folder: Path, mode: str, steps: list[Any], person: list[Any], text: str) -> RunResult:
    """Return how a request over real HTTP ended in a mode."""
    async with ScriptedServer(*steps) as server:
        model = model_at(server)
        setting = SessionOptions(folder, model, log=MemoryLog(), person=ScriptedPerson(person), environ={}, mode=mode)  # type: ignore[arg-type]
        at = await open_session(setting)
        outcome = await run(at.session, text)
        await at.close()
        await model.close()
    return outcome


async def test_over_real_http_a_request_is_read_directly_and_an_edit_planned(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("teh cat\n")
    reads = [wants(*READ), message("It says teh cat.")]
    outcome = await served(tmp_path, "plan", reads, [], "what does a.txt say?")
    assert (outcome.status, outcome.text) == ("completed", "It says teh cat.")
    plan = wire_plan("Mend it", wire_task(1, "Read it.", READ), wire_task(2, "Mend it.", EDIT, depends_on=[1]))
    answer = message(json.dumps({"answer": "It says the cat now.", "plan": None}))
    outcome = await served(tmp_path, "plan", [wants(*READ), wants(*EDIT), plan, answer], ["yes"], ASKED)
    assert (outcome.status, outcome.text) == ("completed", "It says the cat now.")
    assert (tmp_path / "a.txt").read_text() == "the cat\n"


async def test_over_real_http_a_single_edit_runs_and_the_second_is_planned(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("teh cat\n")
    (tmp_path / "b.txt").write_text("teh dog\n")
    one = [wants(*READ), wants(*EDIT), message("Mended.")]
    outcome = await served(tmp_path, "auto", one, [], ASKED)
    assert outcome.status == "completed", outcome
    assert (tmp_path / "a.txt").read_text() == "the cat\n"
    (tmp_path / "a.txt").write_text("teh cat\n")
    plan = wire_plan("Mend b", wire_task(1, "Mend b.", ("read_file", {"path": "b.txt"}), EDIT_B))
    answer = message(json.dumps({"answer": "Both are mended.", "plan": None}))
    steps = [wants(*READ), wants(*EDIT), wants(*EDIT_B), plan, answer]
    outcome = await served(tmp_path, "auto", steps, ["yes"], "fix the typos in a.txt and b.txt")
    assert (outcome.status, outcome.text) == ("completed", "Both are mended.")
    assert (tmp_path / "b.txt").read_text() == "the dog\n"

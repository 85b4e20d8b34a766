"""What becomes of a plan's results: an answer, a further plan, or the report alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foregate.agent.models.scripted import ScriptedModel, answers, says
from foregate.agent.planning.answering import PlanReport
from foregate.agent.planning.configuration import Configuration
from foregate.agent.planning.control import follow_plan, get_plan_state, preview_open_tasks, record_confirmation
from foregate.agent.planning.planner import FROM_FILE, make_plan, record_proposal
from foregate.evidence.state.plan import PlanState
from foregate.evidence.state.session import SessionState
from foregate.schemas.errors import ModelError, WorkspaceError
from foregate.schemas.event_body import TaskEnded
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.task_plan import TaskPlan
from tests.agent.models.openai.scripted_server import ScriptedServer, message
from tests.agent.models.openai.test_model import model_at
from tests.agent.planning.plans import CONFIGURATION, PlanRun, call, edit, plan, statuses, task
from tests.agent.planning.test_worked_examples import wire_plan, wire_task
from tests.agent.world import World

PLAN = plan(
    task(1, call("read_file", path="a.txt")),
    task(2, edit("a.txt", "teh", "the"), after=(1,)),
)
FAILING = plan(task(1, edit("a.txt", "nowhere", "there")))


def configured(**planning: Any) -> Configuration:
    """Return the default configuration with other keys under `planning`."""
    return CONFIGURATION.model_copy(update={"planning": CONFIGURATION.planning.model_copy(update=planning)})


def further(*tasks: Any) -> dict[str, Any]:
    """Return an answer that proposes a further plan."""
    body = json.loads(json.loads(wire_plan("Mend b.txt", *tasks).bytes())["choices"][0]["message"]["content"])
    return {"answer": None, "plan": body}


MEND_B = wire_task(1, "Mend it.", ("edit_file", {"path": "b.txt", "old": "teh", "new": "the"}))


async def ran(
    world: World,
    wanted: TaskPlan,
    replies: list[Any],
    configuration: Configuration = CONFIGURATION,
    *,
    file: bool = False,
) -> tuple[PlanReport, ScriptedModel]:
    """Return the report of a plan that was run to its end, and the planner that was told."""
    model = ScriptedModel(replies)
    session = await world.open(model)
    state = await follow_plan(session)
    await record_proposal(session, wanted, CONFIGURATION, actor="person" if file else "planner")
    looked = await preview_open_tasks(session, state)
    await record_confirmation(session, state, looked, wanted.digest, seen=True)
    report = await PlanRun(session, state, configuration, planner=model).run()
    model.finish()
    return report, model


async def test_the_planner_reads_the_results_and_its_answer_ends_the_task() -> None:
    world = World()
    report, model = await ran(world, PLAN, [answers({"answer": "It says the cat now.", "plan": None})])
    assert (report.status, report.answer, report.further) == ("completed", "It says the cat now.", None)
    (ended,) = await world.bodies(TaskEnded)
    assert ended.text == "It says the cat now."
    told = json.loads(model.requests[0].messages[-1].text)
    assert told["request"] == PLAN.query
    assert [entry["status"] for entry in told["results"]] == ["done", "done"]
    assert "teh cat" in told["results"][0]["calls"][0]["result"]
    assert model.requests[0].words_only
    assert "teh cat" not in model.requests[0].messages[0].text, "what a tool gave never stands among the instructions"


async def test_a_failed_plan_stays_failed_whatever_the_planner_says_and_the_answer_is_marked() -> None:
    world = World()
    report, model = await ran(world, FAILING, [answers({"answer": "All is well.", "plan": None})])
    assert (report.status, report.answer) == ("failed", "All is well.")
    assert json.loads(model.requests[0].messages[-1].text)["results"][0]["why"]
    assert "[Foregate: `edit_file a.txt` failed]" in (await world.bodies(TaskEnded))[-1].text


@pytest.mark.parametrize(
    "reply",
    [says("it went well"), answers({"answer": None, "plan": None}), answers({"answer": 3, "plan": None}), says("[]")],
)
async def test_an_answer_that_cannot_be_used_is_asked_for_again_and_then_the_report_stands(
    reply: ModelResponse,
) -> None:
    world = World()
    report, model = await ran(world, PLAN, [reply] * CONFIGURATION.planning.planning_tries)
    assert (report.status, report.answer) == ("completed", "")
    assert "no usable answer" in report.unanswered
    assert report.unanswered in (await world.bodies(TaskEnded))[-1].text
    assert json.loads(model.requests[1].messages[-1].text)["defects"]


async def test_a_planner_that_is_gone_is_asked_once_and_changes_nothing() -> None:
    report, _ = await ran(World(), PLAN, [ModelError("nobody there")])
    assert (report.status, report.answer) == ("completed", "")
    assert "nobody there" in report.unanswered


@pytest.mark.parametrize(
    ("answer", "wanted", "file", "asked"),
    [
        ("requested", PLAN, False, True),
        ("requested", PLAN, True, False),
        ("always", PLAN, True, True),
        ("failed", PLAN, False, False),
        ("failed", FAILING, True, True),
        ("never", FAILING, False, False),
    ],
)
async def test_the_configuration_says_whether_a_model_call_is_spent(
    answer: str, wanted: TaskPlan, file: bool, asked: bool
) -> None:
    replies = [answers({"answer": "So it is.", "plan": None})] if asked else []
    report, model = await ran(World(), wanted, replies, configured(answer=answer), file=file)
    assert report.answer == ("So it is." if asked else "")
    if asked and file:
        assert FROM_FILE not in model.requests[0].messages[-1].text


async def test_a_further_plan_is_proposed_and_nothing_of_it_runs_before_another_yes() -> None:
    world = World()
    report, _ = await ran(world, PLAN, [answers(further(MEND_B))])
    assert report.further is not None
    assert (report.status, world.workspace.files["b.txt"]) == ("completed", b"teh dog")
    state, session = PlanState(), SessionState()
    for event in await world.log.read("s"):
        state.apply(event)
        session.apply(event)
    assert (state.confirmed, state.number, statuses(state)) == (False, 2, ["pending"])
    assert session.task is not None
    assert (session.task.running_plan, session.task.proposed_plan) == ("", report.further.digest)


async def test_a_plan_that_was_broken_off_is_followed_by_none_that_runs_before_another_yes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()

    def gone() -> None:
        raise WorkspaceError("the workspace is not the folder it was")

    monkeypatch.setattr(world.workspace, "standing", gone)
    report, _ = await ran(world, PLAN, [answers(further(MEND_B))])
    assert (report.status, statuses(report), report.reason) == (
        "failed",
        ["aborted", "aborted"],
        "the workspace is not the folder it was",
    )
    assert report.further is not None
    state = PlanState.of(await world.log.read("s"))
    assert (state.confirmed, state.number, statuses(state), world.effects) == (False, 2, ["pending"], [])


async def test_a_further_plan_after_one_from_a_file_does_not_make_the_files_words_the_persons() -> None:
    world = World()
    report, model = await ran(world, PLAN, [answers(further(MEND_B))], configured(answer="always"), file=True)
    assert report.further is not None
    assert (report.further.query, json.loads(model.requests[0].messages[-1].text)["request"]) == ("", "")
    assert not PlanState.of(await world.log.read("s")).planned


async def test_after_the_last_plan_the_schema_offers_none_and_one_sent_all_the_same_is_refused() -> None:
    world = World()
    report, model = await ran(
        world, PLAN, [answers(further(MEND_B)), answers({"answer": "I stop."})], configured(max_plans=1)
    )
    assert (report.further, report.answer) == (None, "I stop.")
    schema = model.requests[0].schema
    assert schema is not None
    assert list(schema["properties"]) == ["answer"]


async def test_the_plan_that_ran_is_no_further_plan() -> None:
    world = World()
    same = wire_task(1, "Mend it.", ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"}))
    planner = ScriptedModel(
        [answers(further(same)["plan"]), answers(further(same)), answers({"answer": "Done.", "plan": None})]
    )
    session = await world.open(planner)
    state = await follow_plan(session)
    planning = await make_plan(session, "mend a.txt", planner, CONFIGURATION)
    assert planning.plan is not None
    looked = await preview_open_tasks(session, state)
    await record_confirmation(session, state, looked, state.digest, seen=True)
    report = await PlanRun(session, state, CONFIGURATION, planner=planner).run()
    assert (report.answer, report.further) == ("Done.", None)
    assert "has run" in planner.requests[2].messages[-1].text


async def test_a_process_that_ends_before_the_answer_asks_again_and_runs_nothing_twice() -> None:
    world = World()

    class Killed(BaseException):
        pass

    def killed(request: object) -> ModelResponse:
        raise Killed

    session = await world.open(ScriptedModel([killed]))
    state = await follow_plan(session)
    await record_proposal(session, PLAN, CONFIGURATION)
    await record_confirmation(session, state, await preview_open_tasks(session, state), PLAN.digest, seen=True)
    with pytest.raises(Killed):
        await PlanRun(session, state, CONFIGURATION, planner=session.model).run()
    effects = list(world.effects)
    await world.kill(session)
    again = ScriptedModel([answers({"answer": "The cat.", "plan": None})])
    session = await world.open(again, resume=True)
    state = await follow_plan(session)
    assert state.running
    report = await PlanRun(session, state, CONFIGURATION, planner=again).run()
    assert (report.answer, world.effects) == ("The cat.", effects)
    assert (await get_plan_state(session)).answer == "The cat."


async def test_a_dry_run_and_a_cancelled_one_spend_no_answer() -> None:
    world = World()
    session = await world.open([])
    state = await follow_plan(session)
    await record_proposal(session, PLAN, CONFIGURATION)
    await record_confirmation(session, state, await preview_open_tasks(session, state), PLAN.digest, seen=True)
    run = PlanRun(session, state, CONFIGURATION, planner=session.model)
    await run.advance()
    assert (await run.cancel()).status == "cancelled"


async def test_what_is_asked_about_results_is_what_a_strict_endpoint_takes() -> None:
    """Over real HTTP: the scripted server refuses a schema that the API refuses, with a plan to offer and without."""
    for left in (3, 1):
        world = World()
        async with ScriptedServer(
            message(json.dumps({"answer": "Yes.", **({"plan": None} if left > 1 else {})}))
        ) as server:
            model = model_at(server)
            session = await world.open(model)
            state = await follow_plan(session)
            await record_proposal(session, PLAN, CONFIGURATION)
            await record_confirmation(session, state, await preview_open_tasks(session, state), PLAN.digest, seen=True)
            report = await PlanRun(session, state, configured(max_plans=left), planner=model).run()
            await model.close()
            assert report.answer == "Yes.", report.unanswered
            assert server.requests[0]["response_format"]["type"] == "json_schema"

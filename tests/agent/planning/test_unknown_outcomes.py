"""What came of a call with an unknown outcome is found out or said, and the plan goes on without doing it twice."""

from __future__ import annotations

from typing import Literal

import pytest
from msgspec.structs import replace

from foregate.agent.loop.asking import describe_open_trouble
from foregate.agent.loop.reconcile import list_open_calls, reconcile_calls, record_outcome, resolve_outcomes
from foregate.agent.loop.runner import run as run_task
from foregate.agent.loop.undo import undo
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.planning.control import follow_plan, reset_failed_tasks, roll_back_plans
from foregate.agent.session.session import Session
from foregate.agent.tools.tool import Tool, WrappedToolSource
from foregate.evidence.state.session import SessionState
from foregate.schemas.errors import UsageError
from foregate.schemas.event_body import OutcomeUnknown, ToolFinished
from foregate.schemas.protocols import RunContext, ToolSource
from foregate.schemas.tool_call import ToolCall, ToolResult
from foregate.telemetry.queries.invariants import InvariantChecker
from tests.agent.planning.deadly import Deadly, Died
from tests.agent.planning.plans import call, confirmed, edit, plan, statuses, task
from tests.agent.planning.test_control import gone_on
from tests.agent.world import World


async def died(wanted: object, when: Literal["before", "after"]) -> Deadly:
    """Return the world after the process of a plan died in its first change."""
    world = Deadly()
    session = await world.open([])
    run = await confirmed(session, wanted)  # type: ignore[arg-type]
    if wanted.tasks[0].calls[0].tool == "edit_file":  # type: ignore[attr-defined]
        while "a.txt" not in str(session.state.ledger.resources()):
            await run.advance()
    world.dies = when
    with pytest.raises(Died):
        await run.run()
    await world.kill(session)
    return world


EDIT = plan(task(1, edit("a.txt", "teh", "the")), task(2, call("note", key="two"), after=(1,)))
TEH = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
NOT_DONE = (False, "not_done")
TALK = "I will fix the typo in a.txt now."
SEND = plan(task(1, call("send", to="ann"), call("note", key="one")), task(2, call("note", key="two"), after=(1,)))


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_edit_a_process_died_in_is_looked_at_and_the_plan_goes_on(when: Literal["before", "after"]) -> None:
    world = await died(EDIT, when)
    session = await world.open([], resume=True)
    report = await (await gone_on(world, session)).run()
    assert (report.status, world.workspace.files["a.txt"]) == ("completed", b"the cat")
    assert await world.bodies(OutcomeUnknown) == []
    edits = [body for body in await world.bodies(ToolFinished) if body.tool == "edit_file"]
    assert [(body.ok, body.error) for body in edits] == ([(True, "")] if when == "after" else [NOT_DONE, (True, "")])
    assert describe_open_trouble(session.state) == []


async def test_an_edit_that_was_found_to_be_done_can_be_taken_back() -> None:
    world = await died(EDIT, "after")
    session = await world.open([], resume=True)
    state = await follow_plan(session)
    assert await roll_back_plans(session, state) == []
    assert world.workspace.files["a.txt"] == b"teh cat"


async def test_a_file_that_is_neither_as_before_nor_as_meant_leaves_the_outcome_unknown() -> None:
    world = await died(EDIT, "before")
    world.workspace.files["a.txt"] = b"something else"
    session = await world.open([], resume=True)
    assert await reconcile_calls(session) == []
    assert len(list_open_calls(session)) == 1
    report = await (await gone_on(world, session)).run()
    assert (report.status, "it is unknown whether" in report.reason) == ("failed", True)


async def test_looking_says_nothing_of_a_message_that_may_have_been_sent() -> None:
    world = await died(SEND, "after")
    session = await world.open([], resume=True)
    report = await (await gone_on(world, session)).run()
    assert (report.status, statuses(report), world.sent) == ("failed", ["failed", "aborted"], ["ann"])
    with pytest.raises(UsageError, match="plans resolve"):
        await reset_failed_tasks(session, await follow_plan(session))


class Failing(WrappedToolSource):
    """Tools of which nobody knows what they did, before or after they did it."""

    def __init__(self, inner: ToolSource, when: Literal["before", "after"]) -> None:
        super().__init__(inner)
        self.when = when

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        if self.when == "after" or call.name != "edit_file":
            result = await super().run(call, context)
        if call.name == "edit_file":
            raise OSError
        return result


async def parked(world: World, when: Literal["before", "after"]) -> Session:
    """Return a session in which nobody knows what came of an edit, in a process that lives."""
    session = await world.open([calls(("read_file", {"path": "a.txt"})), calls(TEH, text=TALK), says("hm")])
    session.tools = Failing(session.tools, when)
    await run_task(session, "fix the typo in a.txt")
    assert len(session.state.parked) == 1
    return session


async def test_a_file_as_before_proves_nothing_while_the_process_that_ran_the_call_lives() -> None:
    world = World()
    session = await parked(world, "before")
    assert await reconcile_calls(session) == []
    await world.kill(session)
    again = await world.open([], resume=True)
    assert [one.outcome for one in await resolve_outcomes(again, "", None)] == ["not_done"]


async def test_a_file_as_meant_proves_that_the_call_took_effect_whoever_looks() -> None:
    session = await parked(World(), "after")
    assert [one.outcome for one in await reconcile_calls(session)] == ["done"]


async def test_what_another_call_did_to_the_file_since_says_nothing_of_the_one_before() -> None:
    world = World()
    session = await parked(world, "before")
    session.tools = session.tools.inner  # type: ignore[attr-defined]
    session.model = ScriptedModel([calls(TEH, text=TALK), says("done")])
    await run_task(session, "fix it")
    assert world.workspace.files["a.txt"] == b"the cat"
    assert await reconcile_calls(session) == []


async def test_a_tool_that_has_the_name_of_a_built_in_one_is_not_taken_for_it() -> None:
    world = World()
    tools = world.tools
    world.tools = lambda: [  # type: ignore[method-assign]
        Tool(replace(tool.spec, provenance="python"), tool.run) if tool.spec.name == "edit_file" else tool
        for tool in tools()
    ]
    session = await parked(world, "after")
    await world.kill(session)
    world.tools = tools  # type: ignore[method-assign]
    again = await world.open([], resume=True)
    assert len(again.state.parked) == 1


@pytest.mark.parametrize(("said", "sent"), [("done", ["ann"]), ("not_done", ["ann", "ann"])])
async def test_what_a_person_says_was_done_is_not_sent_again_and_what_was_not_is(
    said: Literal["done", "not_done"], sent: list[str]
) -> None:
    world = await died(SEND, "after")
    session = await world.open([], resume=True)
    await (await gone_on(world, session)).run()
    (unclear,) = list_open_calls(session)
    await record_outcome(session, unclear, said)
    await world.kill(session)
    session = await world.open([], [], resume=True)
    state = await follow_plan(session)
    await reset_failed_tasks(session, state)
    report = await (await gone_on(world, session)).run()
    assert (report.status, world.sent) == ("completed", sent)
    log = await world.log.read("s")
    meaning = InvariantChecker()
    assert [finding for event in log for finding in meaning.check_event(event)] == []


async def test_a_call_whose_outcome_is_known_is_no_question() -> None:
    world = await died(SEND, "after")
    session = await world.open([], resume=True)
    with pytest.raises(UsageError, match="no call with an unknown outcome"):
        await record_outcome(session, "c99.1", "done")
    (unclear,) = list_open_calls(session)
    await record_outcome(session, unclear, "done")
    with pytest.raises(UsageError, match="there is: none"):
        await record_outcome(session, unclear, "not_done")


async def test_the_word_of_a_person_does_not_stand_against_what_is_seen() -> None:
    world = await died(EDIT, "after")
    session = await world.open([], resume=True)
    with pytest.raises(UsageError, match="its file shows it"):
        await resolve_outcomes(session, "", "not_done")
    assert list_open_calls(session) == {}


async def test_what_was_only_said_to_be_done_is_named_as_not_undone() -> None:
    world = await died(SEND, "after")
    session = await world.open([], resume=True)
    (unclear,) = list_open_calls(session)
    await record_outcome(session, unclear, "done")
    assert "was not seen" in (await undo(session, unclear)).reason
    left = await roll_back_plans(session, await follow_plan(session))
    assert [what.split(" (")[0] for what in left] == ["send ann"]


async def test_the_state_after_a_resolution_is_what_its_log_says() -> None:
    world = await died(SEND, "after")
    session = await world.open([], resume=True)
    (unclear,) = list_open_calls(session)
    assert "unknown outcome" in describe_open_trouble(session.state)[0]
    await record_outcome(session, unclear, "not_done")
    again = SessionState()
    for event in await world.log.read("s"):
        again.apply(event)
    assert describe_open_trouble(again) == describe_open_trouble(session.state)
    assert again.parked == {}
    assert "did not take effect" in session.state.messages[-1].text


async def test_a_filled_in_task_does_not_send_again_what_is_done() -> None:
    world = Deadly()
    send = calls(("note", {"key": "one"}))
    session = await world.open([send])
    run = await confirmed(session, plan(task(1, action="note", target="one")))
    world.dies = "after"
    with pytest.raises(Died):
        await run.run()
    await world.kill(session)
    session = await world.open([send, says("It was noted already.")], resume=True)
    await (await gone_on(world, session)).run()
    (unclear,) = list_open_calls(session)
    await record_outcome(session, unclear, "done")
    await reset_failed_tasks(session, await follow_plan(session))
    report = await (await gone_on(world, session)).run()
    assert (report.status, len(world.effects)) == ("completed", 1)
    assert isinstance(session.model, ScriptedModel)
    assert "This call took effect." in str(session.model.requests[-1].messages)


async def test_a_filled_in_task_is_asked_again_for_what_was_cut_off_before_it_took_effect() -> None:
    world = Deadly()
    change = calls(TEH, text=TALK)
    session = await world.open([change])
    look = task(1, call("read_file", path="a.txt"))
    run = await confirmed(session, plan(look, task(2, action="edit_file", target="a.txt", after=(1,))))
    world.dies = "before"
    with pytest.raises(Died):
        await run.run()
    await world.kill(session)
    session = await world.open([change], resume=True)
    report = await (await gone_on(world, session)).run()
    assert (report.status, world.workspace.files["a.txt"]) == ("completed", b"the cat")
    assert await world.bodies(OutcomeUnknown) == []

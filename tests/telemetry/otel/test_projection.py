"""What a session looks like from outside: its spans, the verdicts on them, and the metrics."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import answers, calls, says
from foregate.agent.tools.commands import run_shell
from foregate.agent.workspace.work_sandbox import find_work_tier
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.source.load import default_policy
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.event_body import ToolStarted
from foregate.schemas.judgement import Need
from foregate.schemas.model_response import ModelResponse, Usage
from foregate.schemas.protocols import Reply
from foregate.telemetry.otel import names
from foregate.telemetry.otel.exporting import Telemetry
from foregate.telemetry.otel.views import read_time
from foregate.telemetry.queries.decisions import read_decisions
from tests.agent.corpus import stages
from tests.agent.planning.plans import call, carried_out, plan, task
from tests.agent.world import ACCEPT, World, plan_json
from tests.conftest import OpenSession
from tests.events import bodies
from tests.policies import policy_with
from tests.telemetry.otel.conftest import Receive, to
from tests.telemetry.otel.receiver import Arrived, Receiver

READ = ("read_file", {"path": "a.txt"})
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
SEND = ("send", {"to": "bob@example.org", "text": "hello"})
GREET = "I will send Bob the greeting you asked for."
TALK = "I will fix the typo in a.txt."
ASK_EDITS = {"id": "ask-edits", "then": "ask", "tool": "edit_file"}


def asking() -> Any:
    """Return a policy in which edits ask."""
    listed = policy_with().model_dump(mode="json")["rules"]["list"]
    return policy_with({"rules.list": [*listed, ASK_EDITS]})


def named(spans: list[Arrived], begins: str) -> list[Arrived]:
    """Return the spans whose name begins so."""
    return [span for span in spans if span.name.startswith(begins)]


async def test_a_task_is_one_trace_with_a_span_for_each_request_prelude_and_tool(
    receiver: Receiver, telemetry: Telemetry
) -> None:
    world = World()
    session = await world.open([calls(READ, text=TALK), calls(EDIT), says("fixed")], listeners=[telemetry.take_event])
    await run(session, "fix the typo in a.txt")
    await telemetry.close()
    task, *rest = receiver.spans
    assert [task.name, *(span.name for span in rest)] == [
        "invoke_agent foregate",
        "chat scripted",
        "prelude",
        "execute_tool read_file",
        "chat scripted",
        "prelude",
        "execute_tool edit_file",
        "chat scripted",
    ]
    assert {span.trace for span in rest} == {task.trace}
    assert {span.parent for span in rest} == {task.id}
    assert task.parent == ""
    assert all(span.start <= span.end <= task.end for span in rest)
    assert not any(span.failed for span in receiver.spans)
    assert (
        task.about.items()
        >= {
            names.OPERATION: "invoke_agent",
            names.CONVERSATION: "s",
            names.STATUS: "completed",
            names.TURNS: 2,
            names.POLICY: world.policy.hash,
        }.items()
    )
    tool = named(rest, "execute_tool")[1].about
    judged = next(
        e.seq for e in await world.log.read("s") if e.kind == "turn_judged" and e.seq > tool[names.JUDGED] - 1
    )
    assert (tool[names.EFFECT], tool[names.JUDGED]) == ("edit", judged)


async def test_each_row_of_decisions_in_the_log_is_one_event_of_a_prelude(
    receiver: Receiver, telemetry: Telemetry
) -> None:
    world = World()
    session = await world.open([calls(EDIT, text=TALK), calls(EDIT), says("fixed")], listeners=[telemetry.take_event])
    await run(session, "fix the typo in a.txt")
    await telemetry.close()
    told = [event.about for span in receiver.spans for event in span.told if event.name == names.DECISION]
    points = list(read_decisions(await world.log.read("s")))
    assert [(t[names.ADDRESS], t[names.CODE], t[names.SEVERITY], t[names.MODE]) for t in told] == [
        (p.address, p.code, p.severity, p.mode) for p in points
    ]
    (held,) = [t for t in told if t[names.CODE] == "missing_pre_execution_evidence"]
    assert (held[names.RULING], held[names.TOOL_NAME], held[names.GATE]) == ("hold", "edit_file", "evidence")
    assert held[names.POLICY] == world.policy.hash
    assert {t[names.RULING] for t in told} == {"allow", "hold"}


async def test_a_held_call_is_no_error_and_never_a_tool_that_ran(receiver: Receiver, telemetry: Telemetry) -> None:
    world = World()
    session = await world.open([calls(EDIT, text=TALK), says("I could not")], listeners=[telemetry.take_event])
    await run(session, "fix the typo in a.txt")
    await telemetry.close()
    assert [span.name for span in named(receiver.spans, "execute_tool")] == ["execute_tool read_file"]
    assert not any(span.failed for span in receiver.spans)
    assert receiver.spans[0].about[names.HOLDS] == 1
    rulings = [span.about[names.RULING] for span in named(receiver.spans, "prelude")]
    assert rulings == ["hold", "allow"]  # the edit, and the look that cures it


async def test_the_metrics_agree_with_the_log(receiver: Receiver, telemetry: Telemetry) -> None:
    world = World(policy=asking())
    used = ModelResponse("done", usage=Usage(100, 7))
    session = await world.open([calls(EDIT, text=TALK), calls(EDIT), used], ["yes"], listeners=[telemetry.take_event])
    await run(session, "fix the typo in a.txt")
    await telemetry.close()
    events, metrics = await world.log.read("s"), receiver.metrics
    points = list(read_decisions(events))
    counted = {(a[names.GATE], a[names.CODE], a[names.RULING]): n for a, n in metrics[names.DECISIONS]}
    assert sum(counted.values()) == len(points)
    assert counted["evidence", "missing_pre_execution_evidence", "hold"] == 1
    judged = [body for body in bodies(events, TurnJudged) if body.turn.actor == "model"]
    assert [count for _, (count, _) in metrics[names.PRELUDE_DURATION]] == [len(judged)]
    ran = {a[names.TOOL_NAME]: count for a, (count, _) in metrics[names.TOOL_DURATION]}
    assert ran == {"read_file": 1, "edit_file": 1}
    tokens = {a[names.TOKEN_TYPE]: total for a, (_, total) in metrics[names.TOKEN_USAGE]}
    assert tokens == {"input": 100, "output": 7}
    assert metrics[names.TASK_HOLDS] == [({names.STATUS: "completed"}, (1, 1))]
    assert [(a[names.CHOICE], n) for a, n in metrics[names.APPROVALS]] == [("yes", 1)]


async def test_time_a_person_takes_is_no_time_of_the_gates(receiver: Receiver, telemetry: Telemetry) -> None:
    world = World(policy=asking())

    def after_half_an_hour(_: Need) -> Reply:
        world.clock.seconds += 1800
        return Reply("yes")

    model = [calls(READ, text=TALK), calls(EDIT), says("done")]
    session = await world.open(model, [after_half_an_hour], listeners=[telemetry.take_event])
    await run(session, "fix the typo in a.txt")
    await telemetry.close()
    ((_, (_, seconds)),) = receiver.metrics[names.PRELUDE_DURATION]
    (waited,) = [e.about[names.WAITED] for s in receiver.spans for e in s.told if e.name == names.APPROVAL]
    kinds = ("model_response", "need_raised", "need_answered", "turn_judged")
    steps = [event for event in await world.log.read("s") if event.kind in kinds]
    gates = sum(
        read_time(after) - read_time(before)
        for before, after in pairwise(steps)
        if before.kind in ("model_response", "need_answered")
    )
    assert waited >= 1800
    assert seconds == pytest.approx(gates / 10**9)


async def test_planner_and_critic_are_requests_inside_the_prelude_that_asked_them(
    receiver: Receiver, telemetry: Telemetry
) -> None:
    world = World(policy=policy_with({"critique.level": "plan"}))
    model = [calls(SEND, text=GREET), answers(plan_json("send", "bob@example.org")), answers(ACCEPT)]
    session = await world.open([*model, says("sent")], ["yes"], listeners=[telemetry.take_event])
    assert (await run(session, "send a greeting to bob@example.org")).status == "completed"
    await telemetry.close()
    prelude, _ = named(receiver.spans, "prelude")  # the other one is about the answer
    inside = [span for span in named(receiver.spans, "chat") if span.parent == prelude.id]
    assert [span.about[names.PURPOSE] for span in inside] == ["plan", "critique"]
    assert all(prelude.start <= span.start <= span.end <= prelude.end for span in inside)
    (approval,) = [event for event in prelude.told if event.name == names.APPROVAL]
    assert (approval.about[names.GATE], approval.about[names.CHOICE]) == ("approval", "yes")


async def test_advice_that_could_not_be_used_is_a_failed_request(receiver: Receiver, telemetry: Telemetry) -> None:
    world = World()
    model = [calls(SEND, text=GREET), says("no plan"), says("no critique"), says("could not")]
    session = await world.open(model, ["no", "no"], listeners=[telemetry.take_event])
    await run(session, "send a greeting to bob@example.org")
    await telemetry.close()
    failed = [span for span in receiver.spans if span.failed]
    assert failed
    assert {span.about[names.ERROR_TYPE] for span in failed} == {"unusable_answer"}
    assert {span.about[names.PURPOSE] for span in failed} <= {"plan", "critique"}


async def test_a_tool_that_fails_says_of_what_sort_only_in_words_of_ours(receive: Receive) -> None:
    receiver = receive()
    telemetry, world = to(receiver), World()
    missing = ("read_file", {"path": "no-such-file.txt"})
    session = await world.open([calls(missing), says("it is not there")], listeners=[telemetry.take_event])
    await run(session, "read no-such-file.txt")
    await telemetry.close()
    (tool,) = named(receiver.spans, "execute_tool")
    assert tool.failed
    assert tool.about[names.ERROR_TYPE] in ("_OTHER", "tool_error", "arguments")


async def test_a_child_task_stands_under_the_call_that_started_it(receiver: Receiver, telemetry: Telemetry) -> None:
    world = World()
    delegate = ("delegate", {"task": "read a.txt and say what it says"})
    model = [calls(delegate), calls(READ), says("it says teh cat"), says("teh cat, I hear")]
    session = await world.open(model, listeners=[telemetry.take_event])
    await run(session, "what does a.txt say?")
    await telemetry.close()
    (call,) = named(receiver.spans, "execute_tool delegate")
    parent, child = named(receiver.spans, "invoke_agent")
    assert (child.parent, child.trace) == (call.id, parent.trace)
    assert child.about[names.DEPTH] == 1
    assert named(receiver.spans, "execute_tool read_file")[0].parent == child.id


async def test_a_child_that_waited_goes_on_under_its_parents_new_trace(receive: Receive) -> None:
    world, first, second = World(policy=asking()), receive(), receive()
    delegate = ("delegate", {"task": "fix the typo in a.txt"})
    before = to(first)
    model = [calls(delegate), calls(READ, text=TALK), calls(EDIT)]
    session = await world.open(model, [None], listeners=[before.take_event])
    assert (await run(session, "fix the typo in a.txt")).status == "awaiting_approval"
    await before.close()
    await world.kill(session)
    after = to(second)
    after.recall(await world.log.read("s"))
    again = await world.open([says("fixed"), says("done")], ["yes"], resume=True, listeners=[after.take_event])
    assert (await run_to_outcome(again)).status == "completed"
    await after.close()
    assert {span.about[names.STATUS] for span in named(first.spans, "invoke_agent")} == {"awaiting_approval"}
    parent, child = sorted(named(second.spans, "invoke_agent"), key=lambda span: span.about[names.DEPTH])
    (call,) = named(second.spans, "execute_tool delegate")
    assert (child.parent, child.trace, call.trace) == (call.id, parent.trace, parent.trace)
    assert named(second.spans, "execute_tool edit_file")[0].parent == child.id


async def waiting(world: World, *listeners: Any) -> None:
    """Leave a session of the world with an edit that waits for a yes, its process gone."""
    session = await world.open([calls(READ, text=TALK), calls(EDIT)], [None], listeners=listeners)
    assert (await run(session, "fix the typo in a.txt")).status == "awaiting_approval"
    await world.kill(session)


async def test_a_task_that_goes_on_in_another_process_is_a_trace_linked_to_the_first(receive: Receive) -> None:
    world, first, second = World(policy=asking()), receive(), receive()
    before = to(first)
    await waiting(world, before.take_event)
    await before.close()
    after = to(second)
    after.recall(await world.log.read("s"))
    session = await world.open([says("done")], ["yes"], resume=True, listeners=[after.take_event])
    assert (await run_to_outcome(session)).status == "completed"
    await after.close()
    began, (goes_on,) = named(first.spans, "invoke_agent")[0], named(second.spans, "invoke_agent")
    assert began.about[names.STATUS] == "awaiting_approval"
    assert goes_on.links == [(began.trace, began.id)]
    assert goes_on.trace != began.trace
    assert goes_on.about.items() >= {names.TASK: 1, names.CONVERSATION: "s", names.STATUS: "completed"}.items()
    assert not {span.id for span in first.spans} & {span.id for span in second.spans}
    assert names.DECISIONS in second.metrics
    told = [addresses(first.spans), addresses(second.spans)]
    assert told[0] + told[1] == [point.address for point in read_decisions(await world.log.read("s"))]
    assert told[1]


def addresses(spans: list[Arrived]) -> list[str]:
    """Return the addresses of the decisions that spans tell of."""
    return [event.about[names.ADDRESS] for span in spans for event in span.told if event.name == names.DECISION]


async def test_a_task_that_goes_on_in_the_same_process_leaves_the_wait_out(
    receiver: Receiver, telemetry: Telemetry
) -> None:
    world = World(policy=asking())
    model = [calls(READ, text=TALK), calls(EDIT), says("done")]
    session = await world.open(model, [None, "yes"], listeners=[telemetry.take_event])
    await run(session, "fix the typo in a.txt")
    world.clock.seconds += 3600
    await run_to_outcome(session)
    await telemetry.close()
    first, second = named(receiver.spans, "invoke_agent")
    assert second.links == [(first.trace, first.id)]
    assert second.start - first.end >= 3600 * 10**9 > (second.end - second.start)


@pytest.mark.parametrize(("change", "error"), [(EDIT, "not_done"), (("note", {"key": "k"}), "outcome_unknown")])
async def test_an_effect_of_a_process_that_died_is_told_of_by_the_next(
    receive: Receive, change: Any, error: str
) -> None:
    world, receiver = World(), receive()

    class Killed(BaseException):
        pass

    def kill(event: Event) -> None:
        if isinstance(event.body, ToolStarted) and event.body.tool == change[0]:
            raise Killed

    session = await world.open([calls(READ, text=TALK), calls(change, text=TALK)], listeners=[kill])
    try:
        await run(session, "fix the typo in a.txt")
    except Killed:
        await world.kill(session)
    telemetry = to(receiver)
    telemetry.recall(await world.log.read("s"))
    again = await world.open([says("unknown")], resume=True, listeners=[telemetry.take_event])
    await run_to_outcome(again)
    await telemetry.close()
    (tool,) = named(receiver.spans, "execute_tool")
    assert (tool.about[names.ERROR_TYPE], tool.failed) == (error, True)


async def test_projecting_a_log_again_gives_the_same_spans(receive: Receive) -> None:
    world, live, later = World(), receive(), receive()
    hearing, reading = to(live), to(later)
    session = await world.open([calls(READ, text=TALK), calls(EDIT), says("ok")], listeners=[hearing.take_event])
    await run(session, "fix the typo in a.txt")
    await hearing.close()
    for event in await world.log.read("s"):
        reading.take_event(event)
    await reading.close()
    assert live.spans == later.spans != []


async def test_a_clock_that_is_set_back_ends_no_span_before_it_began(receiver: Receiver, telemetry: Telemetry) -> None:
    world = World()
    world.clock.seconds = 7200

    def back(event: Event) -> None:
        world.clock.seconds = 0 if event.kind == "model_response" else world.clock.seconds

    session = await world.open([calls(READ), says("teh cat")], listeners=[back, telemetry.take_event])
    await run(session, "what does a.txt say?")
    await telemetry.close()
    assert all(span.start <= span.end for span in receiver.spans)


async def test_the_calls_of_a_plan_are_tool_spans_and_no_request_to_a_model(
    receiver: Receiver, telemetry: Telemetry
) -> None:
    world = World()
    session = await world.open([], listeners=[telemetry.take_event])
    await carried_out(session, plan(task(1, call("read_file", path="a.txt"))))
    await telemetry.close()
    assert [span.name for span in receiver.spans] == ["invoke_agent foregate", "prelude", "execute_tool read_file"]


async def test_a_response_that_is_judged_in_stages_is_one_request_and_a_prelude_for_each_stage(
    receive: Receive,
) -> None:
    for content in (False, True):
        receiver = receive()
        telemetry = to(receiver, content=content)
        world = World()
        opened = world.open

        async def listened(*given: Any, opened: Any = opened, telemetry: Any = telemetry) -> Any:
            return await opened(*given, listeners=[telemetry.take_event])

        world.open = listened  # type: ignore[method-assign,assignment]
        await stages(world)
        await telemetry.close()
        chats, preludes = named(receiver.spans, "chat"), named(receiver.spans, "prelude")
        judged = [event for event in await world.log.read("s") if event.kind == "turn_judged"]
        assert (len(chats), len(preludes)) == (2, len(judged))
        ran = {body.call for body in bodies(await world.log.read("s"), ToolStarted)}
        assert len(named(receiver.spans, "execute_tool")) == len(ran)
        if content:
            (said,) = json.loads(chats[0].about[names.OUTPUT_MESSAGES])
            assert sum(part["type"] == "tool_call" for part in said["parts"]) == 5
            shown = [json.loads(span.about[names.TOOL_ARGUMENTS]) for span in named(receiver.spans, "execute_tool")]
            assert {"path": "a.txt"} in shown


async def test_a_command_in_a_sandbox_is_one_span_whether_its_changes_are_kept_or_thrown_away(
    receiver: Receiver, telemetry: Telemetry, open_session: OpenSession, workspace: Workspace, folder: Path
) -> None:
    policy = default_policy()
    if find_work_tier(workspace, policy)["tier"] != "full":
        pytest.skip("this machine has no sandboxes")
    (folder / "a.txt").write_text("kept\n")
    rm = ("run_shell", {"command": "rm a.txt"})
    session = await open_session(calls(rm), calls(rm), says("done"), tools=[run_shell(workspace, policy)])
    await run(session, "delete a.txt")
    for event in await session.log.read():
        telemetry.take_event(event)
    await telemetry.close()
    ran = named(receiver.spans, "execute_tool run_shell")
    assert [span.about.get(names.ERROR_TYPE, "") for span in ran] == ["missing_pre_execution_evidence", ""]

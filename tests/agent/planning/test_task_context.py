"""What the execution model is shown: who asked, what earlier tasks came to, the task; within a limit, and provably."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.agent.models.scripted import calls, says
from foregate.agent.planning.answering import PlanReport
from foregate.agent.planning.configuration import Configuration
from foregate.agent.planning.control import (
    follow_plan,
    preview_open_tasks,
    record_confirmation,
    reset_failed_tasks,
)
from foregate.schemas.event import ModelResponded
from foregate.schemas.message import Message, ModelRequest, WireNames, format_messages, read_messages
from foregate.schemas.model_response import ModelResponse, WireMessage
from foregate.schemas.strict_json import Json, get_list, get_object
from foregate.schemas.task_plan import FillRequest, PlanStepChanged, PlanTask
from foregate.schemas.thoughts import split_thoughts
from foregate.schemas.tool_call import ToolResult
from tests.agent.planning.plans import CONFIGURATION, PlanRun, call, confirmed, edit, plan, statuses, task
from tests.agent.world import World


class Listening:
    """A model that notes what it is asked and answers as scripted, the last answer again and again."""

    name = "listening"

    def __init__(self, *answers: ModelResponse) -> None:
        self.answers = list(answers) or [says("It is done.")]
        self.asked: list[ModelRequest] = []

    async def respond(self, request: ModelRequest, on_text: object = None) -> ModelResponse:
        self.asked.append(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def last(self) -> list[Message]:
        """The messages of the newest request."""
        return list(self.asked[-1].messages)


def shaped(**changes: Any) -> Configuration:
    """Return the configuration with keys such as `context__max_tokens` changed."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        section, _, name = key.partition("__")
        sections.setdefault(section, {})[name] = value
    made = {name: getattr(CONFIGURATION, name).model_copy(update=keys) for name, keys in sections.items()}
    return CONFIGURATION.model_copy(update=made)


async def ran(world: World, model: Listening, *tasks: PlanTask, **changes: Any) -> PlanReport:
    """Return the report of a plan that was run under a changed configuration."""
    session = await world.open(model)
    run = await confirmed(session, plan(*tasks), configuration=shaped(**changes))
    return await run.run()


def reads(number: int, path: str, **more: Any) -> PlanTask:
    return task(number, call("read_file", path=path), **more)


def output_of(message: Message) -> str:
    return str(json.loads(message.text)["output"])


def about(message: Message) -> Mapping[str, Json]:
    """Return what the last message says of the task."""
    found: Mapping[str, Json] = json.loads(message.text)["task"]
    return found


async def asks_of(world: World) -> list[FillRequest]:
    """Return what the log says of each request to fill in a task."""
    return [body.ask for body in await world.bodies(PlanStepChanged) if body.ask is not None]


async def test_a_task_is_filled_in_from_the_goal_the_task_and_what_earlier_tasks_came_to() -> None:
    world, model = World(), Listening(says("They are two animals."))
    await ran(world, model, reads(1, "a.txt"), task(2, action="analyze_error", target="both"))
    system, person, made, answer, asked = model.last
    assert (system.role, person.role) == ("system", "user")
    assert made.text == "Task 1 of 2 of the confirmed plan: the reason of task 1"
    assert [one.name for one in made.calls] == ["read_file"]
    assert output_of(answer) == "content of `a.txt`\nteh cat"
    assert (about(asked)["goal"], about(asked)["target"]) == ("mend the files", "both")


async def test_what_was_said_before_the_plan_is_not_shown() -> None:
    from foregate.agent.loop.runner import run

    world, model = World(), Listening(says("A word of then."), says("Nothing to do."))
    session = await world.open(model)
    await run(session, "an earlier question")
    await (await confirmed(session, plan(task(1, action="analyze_error")))).run()
    assert not [
        message for message in model.last if "word of then" in message.text or "earlier question" in message.text
    ]


async def test_what_was_said_between_two_runs_is_no_result_of_a_task() -> None:
    from foregate.agent.loop.runner import run

    world, model = (
        World(),
        Listening(says("It is a cat."), says(""), says(""), says("A word of then."), says("Yes.")),
    )
    session = await world.open(model)
    first = await confirmed(session, plan(task(1, action="analyze_error"), task(2, action="edit_file", target="a.txt")))
    assert statuses(await first.run()) == ["done", "failed"]
    await run(session, "and how is the weather?")
    await reset_failed_tasks(session, first.state)
    await record_confirmation(
        session, first.state, await preview_open_tasks(session, first.state), first.state.digest, seen=False
    )
    await first.run()
    texts = [message.text for request in model.asked[4:] for message in request.messages]
    assert [text for text in texts if "It is a cat." in text]
    assert not [text for text in texts if "word of then" in text]


async def test_the_log_proves_what_was_shown() -> None:
    world, model = World(), Listening(calls(("read_file", {"path": "b.txt"})), says("Both are misspelt."))
    await ran(world, model, reads(1, "a.txt"), task(2, action="read_file"), task(3, action="analyze_error"))
    kept = [read_messages(world.blobs.get(ask.request)) for ask in await asks_of(world)]
    assert kept == [list(request.messages) for request in model.asked]
    assert len(kept) == 2
    assert output_of(kept[1][-2]) == "content of `b.txt`\nteh dog"


async def test_what_was_asked_before_a_process_ended_is_what_is_sent_after_it() -> None:
    world = World()
    session = await world.open([])
    run = await confirmed(session, plan(reads(1, "a.txt"), task(2, action="analyze_error")))
    while not await asks_of(world):
        await run.advance()
    await world.kill(session)
    model = Listening()
    again = await world.open(model, resume=True)
    state = await follow_plan(again)
    world.workspace.files["a.txt"] = b"changed"
    report = await PlanRun(again, state, shaped(context__max_tokens=1), model).run()
    assert report.status == "completed"
    (ask,) = await asks_of(world)
    assert model.last == read_messages(world.blobs.get(ask.request))


async def test_a_request_the_store_lost_is_not_made_up() -> None:
    world, model = World(), Listening()
    session = await world.open(model)
    run = await confirmed(session, plan(task(1, action="analyze_error")))
    while not await asks_of(world):
        await run.advance()
    world.blobs._bytes.clear()
    report = await run.run()
    _, again = await asks_of(world)
    assert "no stored bytes" in str(get_object(again.about, "task")["why"])
    assert (statuses(report), len(model.asked)) == (["done"], 1)
    assert model.last == read_messages(world.blobs.get(again.request))


BIG = {f"{number}.txt": f"{number} ".encode() * 800 for number in range(1, 10)}


async def test_above_the_limit_the_middle_goes_and_what_the_task_needs_stays() -> None:
    world, model = World(files=dict(BIG)), Listening()
    tasks = [reads(number, f"{number}.txt") for number in range(1, 10)]
    last = task(10, action="analyze_error", after=(5,))
    limits: dict[str, Any] = {"context__keep_first_tasks": 1, "context__keep_last_tasks": 2}
    await ran(world, model, *tasks, last, context__max_tokens=3600, **limits)
    shown = [message.calls[0].arguments["path"] for message in model.last if message.calls]  # type: ignore[index]
    assert shown == ["1.txt", "5.txt", "8.txt", "9.txt"]
    (ask,) = await asks_of(world)
    assert ask.context is not None
    assert ask.context.strategy == "keep_ends"
    assert ask.context.after <= 3600 < ask.context.before


async def test_a_summary_puts_a_line_in_the_place_of_a_task_and_none_leaves_nothing_out() -> None:
    tasks = [*(reads(number, f"{number}.txt") for number in range(1, 10)), task(10, action="analyze_error")]
    for strategy in ("summary", "none"):
        world, model = World(files=dict(BIG)), Listening()
        await ran(world, model, *tasks, context__max_tokens=3600, context__compression_strategy=strategy)
        texts = [message.text for message in model.last]
        if strategy == "none":
            assert sum(text.startswith("Task ") for text in texts) == 9
        else:
            notice = next(json.loads(text)["output"] for text in texts if "left out here" in text)
            assert 'called read_file {"path":"4.txt"}: done' in notice.splitlines()


async def test_a_task_that_failed_is_named_however_little_room_there_is() -> None:
    world, model = World(), Listening()
    tasks = (reads(1, "none.txt"), task(2, edit("a.txt", "nowhere", "x")), task(3, action="analyze_error"))
    await ran(world, model, *tasks, context__max_tokens=1)
    failed = about(model.last[-1])["not_done"]
    assert [(one["task"], one["status"]) for one in failed] == [(1, "failed"), (2, "failed")]
    assert "`old` does not occur" in failed[1]["why"]


class Lossy(World):
    """A world in which nobody can say what became of a message."""

    def tools(self) -> list[Any]:
        import dataclasses

        async def lost(arguments: Mapping[str, Json]) -> ToolResult:
            return ToolResult(False, "", error="the line broke", unknown=True)

        return [dataclasses.replace(tool, run=lost) if tool.spec.name == "note" else tool for tool in super().tools()]


async def test_an_outcome_nobody_knows_is_shown_as_such() -> None:
    for limit in (8000, 1):
        world, model = Lossy(), Listening()
        tasks = (task(1, call("note", key="k")), task(2, action="analyze_error"))
        report = await ran(world, model, *tasks, context__max_tokens=limit)
        assert statuses(report) == ["failed", "done"]
        assert "it is unknown whether note k" in about(model.last[-1])["not_done"][0]["why"]
        everything = "\n".join(message.text for message in model.last)
        assert "outcome_unknown" in everything or "has an unknown outcome" in everything


async def test_a_change_that_was_undone_is_not_shown_as_done() -> None:
    from foregate.agent.loop.undo import undo

    world, model = World(), Listening()
    session = await world.open(model)
    run = await confirmed(session, plan(task(1, edit("a.txt", "teh", "the")), task(2, action="analyze_error")))
    while [step.status for step in run.state.steps.values()] != ["done", "running"]:
        await run.advance()
    await undo(session, run.state.steps[1].calls[-1].id)
    await run.run()
    undone = [message for message in model.last if message.role == "tool" and '"ok":true' in message.text]
    assert "undone since" in undone[-1].text


@pytest.mark.parametrize(("cutting", "length"), [(True, 100), (False, 3000)])
async def test_long_outputs_are_cut_for_the_model_and_in_the_report_where_that_is_wanted(
    cutting: bool, length: int
) -> None:
    world, model = World(files={"a.txt": b"x" * 3000}), Listening()
    tasks = (reads(1, "a.txt"), task(2, action="analyze_error"))
    shape = {"formatting__max_content_length": 100, "formatting__truncate_large_outputs": cutting}
    report = await ran(world, model, *tasks, **shape)
    for text in (output_of(model.last[-2]), report.tasks[0].responses[0].data):
        assert text.removeprefix("content of `a.txt`").count("x") == length
        assert ("[... 2900 characters left out ...]" in text) == cutting


async def test_a_condition_reads_the_whole_of_an_output_however_short_it_is_shown() -> None:
    world, model = World(files={"a.txt": b"x" * 50 + b" needle " + b"x" * 50}), Listening()
    when = {"task": 1, "output_contains": "needle"}
    report = await ran(
        world, model, reads(1, "a.txt"), reads(2, "a.txt", after=(1,), when=when), formatting__max_content_length=10
    )
    assert statuses(report) == ["done", "done"]


@pytest.mark.parametrize("wanted", [True, False])
async def test_thoughts_are_shown_only_where_that_is_wanted(wanted: bool) -> None:
    thinking = says("<think>I wonder about cats.</think>It is a cat.")
    world, model = World(), Listening(thinking, says("done"))
    tasks = (task(1, action="analyze_error"), task(2, action="analyze_error"))
    report = await ran(world, model, *tasks, formatting__include_reasoning=wanted)
    shown = "\n".join(message.text for message in model.last)
    assert "It is a cat." in shown
    assert ("I wonder" in shown) == wanted
    assert report.tasks[0].reasoning == ("I wonder about cats." if wanted else "")
    assert report.tasks[0].summary == "It is a cat."
    said = await world.bodies(ModelResponded)
    assert (said[0].text, said[0].reasoning) == ("It is a cat.", "I wonder about cats.")


async def test_what_only_the_endpoint_understands_of_a_filled_in_task_goes_back_with_its_calls() -> None:
    own = WireMessage("e", '{"content":["x"]}', ('{"extra_content":{"signature":"s"}}',), thought="reasoning_content")
    filled = calls(("read_file", {"path": "a.txt"}), text="I look.")
    named = tuple(replace(call, wire_id="w1") for call in filled.calls)
    looks = replace(filled, calls=named, reasoning="First the file.", wire=own)
    world, model = World(), Listening(looks, says("It says so."))
    await ran(world, model, task(1, action="read_file", target="a.txt"), task(2, action="analyze_error"))
    made = next(message for message in model.last if message.calls)
    (sent, answer) = format_messages([made, next(one for one in model.last if one.role == "tool")], WireNames([]), "e")
    assert sent["reasoning_content"] == "First the file."
    assert isinstance(sent["content"], str)
    (asked,) = get_list(sent, "tool_calls")
    assert (asked["extra_content"], asked["id"], answer["tool_call_id"]) == ({"signature": "s"}, "w1", "w1")


async def test_a_call_a_model_only_thought_of_is_not_made() -> None:
    thought = (
        '<think>```json\n{"tool": "edit_file", "args": {"path": "a.txt", "old": "teh", "new": "x"}}\n```</think>No.'
    )
    world, model = World(), Listening(says(thought))
    await ran(world, model, task(1, action="edit_file", target="a.txt"))
    assert world.workspace.files["a.txt"] == b"teh cat"


@pytest.mark.parametrize(
    ("text", "thoughts", "said"),
    [
        ("plain", "", "plain"),
        ("<think>a</think>b", "a", "b"),
        ("\n<think>a</think>\n<think>b</think>\nc", "a\nb", "c"),
        ("a</think>b", "a", "b"),
        ("<think>never ends", "never ends", ""),
        ("the mark <think> is one", "", "the mark <think> is one"),
        ("it writes <think>x</think> so", "", "it writes <think>x</think> so"),
    ],
)
def test_thoughts_stand_at_the_beginning(text: str, thoughts: str, said: str) -> None:
    assert split_thoughts(text) == (thoughts, said)


def test_endless_thoughts_are_taken_apart_all_the_same() -> None:
    assert split_thoughts("<think>a</think>" * 5000 + "b")[1] == "b"


TASKS = st.lists(st.tuples(st.integers(0, 4000), st.sampled_from(["read", "missing", "edit", "words"])), max_size=8)


@settings(max_examples=30)
@given(
    TASKS,
    st.sets(st.integers(1, 8)),
    st.integers(1, 4000),
    st.sampled_from(["keep_ends", "summary"]),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_whatever_came_before_what_must_stay_stays(
    kinds: list[tuple[int, str]], needs: set[int], limit: int, strategy: str, first: int, last: int
) -> None:
    files = {f"{number}.txt": b"y " * (size // 2) for number, (size, _) in enumerate(kinds, 1)}
    world, model = World(files={**files, "a.txt": b"teh"}), Listening()
    tasks = [made(number, kind) for number, (_, kind) in enumerate(kinds, 1)]
    after = tuple(number for number in sorted(needs) if number <= len(tasks) and kinds[number - 1][1] == "read")
    keys = {"max_tokens": limit, "compression_strategy": strategy, "keep_first_tasks": first, "keep_last_tasks": last}
    shape = {f"context__{key}": value for key, value in keys.items()}
    report = asyncio.run(ran(world, model, *tasks, task(len(tasks) + 1, action="analyze_error", after=after), **shape))
    shown = model.last
    assert [shown[0].role, shown[-1].role] == ["system", "user"]
    assert "mend a.txt and b.txt" in [message.text for message in shown]
    format_messages(shown, WireNames(()))
    asked = [one.id for message in shown for one in message.calls]
    assert asked == [message.call for message in shown if message.role == "tool"]
    told = about(shown[-1])
    assert told["task"] == len(tasks) + 1
    wrong = [result.task for result in report.tasks[:-1] if result.status != "done"]
    assert [one["task"] for one in told.get("not_done", [])] == wrong
    heads = [message.text for message in shown if message.role == "assistant"]
    assert all(any(head.startswith(f"Task {number} of ") for head in heads) for number in after)
    for head, message in ((message.text, message) for message in shown if message.calls):
        number = int(head.split()[1])
        assert {one.id for one in message.calls} == set(report.tasks[number - 1].calls)


def made(number: int, kind: str) -> PlanTask:
    """Return a task of a kind: one that reads, one that fails, one that changes nothing, one without calls."""
    if kind == "words":
        return task(number, action="analyze_error")
    if kind == "edit":
        return task(number, edit("a.txt", "nowhere", "x"))
    return reads(number, f"{number}.txt" if kind == "read" else "none.txt")

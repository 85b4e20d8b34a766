"""The library's face: its names, an agent's tasks, events and errors."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import foregate
from foregate import Agent
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.planning.configuration import default_configuration
from foregate.agent.tools.files import edit_file, read_file
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.workspace import Workspace
from foregate.assembly.choices import NO_ENDPOINT, choose_model
from foregate.assembly.setting import SessionOptions
from foregate.policy.policy import Policy
from foregate.schemas.errors import ForegateError, UsageError, WorkspaceError
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Model
from foregate.telemetry.log.memory_log import MemoryLog

EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})


@pytest.fixture
def options(folder: Path, workspace: Workspace, policy: Policy) -> dict[str, Any]:
    """Options of an agent over a log in memory and two file tools."""
    (folder / "a.txt").write_text("teh cat")
    tools: list[Tool] = [read_file(workspace, policy), edit_file(workspace, policy)]
    return {"workspace": folder, "policy": policy, "tools": tools, "builtin": False, "log": MemoryLog()}


def test_the_public_names_are_those_that_are_there() -> None:
    assert set(foregate.__all__) == set(dir(foregate))
    for name in foregate.__all__:
        assert getattr(foregate, name) is not None
    with pytest.raises(AttributeError, match="`nothing`"):
        foregate.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("managed", [True, False])
def test_an_agent_that_could_not_open_leaves_no_event_loop_behind(managed: bool) -> None:
    """What is left is collected while another loop runs, where an open one could not be closed."""

    def fail() -> None:
        options: dict[str, Any] = {"model": ScriptedModel([]), "tools": object()}
        run = partial(foregate.run_sync, **options) if managed else Agent(**options).run_sync
        with pytest.raises(UsageError, match="is no source of tools"):
            run("a")

    async def collect() -> None:
        gc.collect()

    gc.disable()
    try:
        fail()
        asyncio.run(collect())
    finally:
        gc.enable()


def test_import_alone_loads_none_of_the_heavy_libraries() -> None:
    code = "import foregate, sys; print(sorted({'pydantic', 'openai', 'rich', 'typer'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


async def test_an_agent_does_task_after_task_in_one_session(options: dict[str, Any], folder: Path) -> None:
    model = ScriptedModel([calls(EDIT, text="I will fix the typo."), calls(EDIT), says("fixed"), says("twice")])
    async with Agent(model=model, **options) as agent:
        first, second = await agent.run("fix the typo"), await agent.run("and?")
        name = agent.session
    assert (first.status, first.text, second.text) == ("completed", "fixed", "twice")
    assert (folder / "a.txt").read_text() == "the cat"
    kinds = [event.kind for event in await options["log"].read(name)]
    assert kinds.count("task_ended") == 2
    assert kinds[-1] == "session_ended"
    model.finish()


def test_the_sync_functions_do_the_same_without_an_event_loop(options: dict[str, Any]) -> None:
    with Agent(model=ScriptedModel([says("one"), says("two")]), **options) as agent:
        assert [agent.run_sync("a").text, agent.run_sync("b").text] == ["one", "two"]
    assert foregate.run_sync("a", model=ScriptedModel([says("three")]), **options).text == "three"


async def test_the_sync_functions_say_what_to_do_inside_an_event_loop(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="event loop is running"):
        Agent(model=ScriptedModel([]), **options).run_sync("a")
    assert (await foregate.run("a", model=ScriptedModel([says("one")]), **options)).text == "one"


class Waits:
    """A model that answers once it is allowed to."""

    name = "waits"

    def __init__(self) -> None:
        self.allowed = asyncio.Event()

    async def respond(self, request: ModelRequest, on_text: object = None) -> ModelResponse:
        """Wait for leave, then answer."""
        await self.allowed.wait()
        return says("done")


async def test_events_arrive_as_they_happen_and_end_with_the_task(options: dict[str, Any]) -> None:
    model, seen = Waits(), []
    async with Agent(model=model, **options) as agent:
        async for event in agent.events("hello"):
            seen.append(event.kind)
            if event.kind == "user_message":
                model.allowed.set()
        assert seen == ["task_started", "user_message", "model_response", "task_ended"]
        assert agent.outcome is not None
        assert agent.outcome.text == "done"


class NeverAnswers:
    """A model that waits for ever."""

    name = "never"

    async def respond(self, request: ModelRequest, on_text: object = None) -> ModelResponse:
        """Wait."""
        await asyncio.Event().wait()
        raise AssertionError


async def test_leaving_the_events_early_cancels_the_task(options: dict[str, Any]) -> None:
    async with Agent(model=NeverAnswers(), **options) as agent:
        events = agent.events("hello")
        assert (await anext(events)).kind == "task_started"
        await events.aclose()  # type: ignore[attr-defined]
        assert agent.outcome is not None
        assert agent.outcome.status == "cancelled"


async def test_one_agent_does_one_task_at_a_time(options: dict[str, Any]) -> None:
    async with Agent(model=NeverAnswers(), **options) as agent:
        task = asyncio.create_task(agent.run("a"))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="one task at a time"):
            await agent.run("b")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_without_a_person_what_needs_one_is_denied(options: dict[str, Any], policy: Policy) -> None:
    asks = policy.model_copy(update={"approval": policy.approval.model_copy(update={"reads": "ask"})})
    model = ScriptedModel([calls(("read_file", {"path": "a.txt"})), says("I may not read it.")])
    async with Agent(model=model, **options | {"policy": asks}) as agent:
        await agent.run("read a.txt")
        answered = [e for e in await options["log"].read(agent.session) if e.kind == "call_answered"]
    assert [event.body.code for event in answered] == ["approval_required"]


async def test_a_session_is_resumed_with_what_was_said_in_it(options: dict[str, Any], folder: Path) -> None:
    async with Agent(model=ScriptedModel([says("one")]), **options) as agent:
        await agent.run("first words")
        name = agent.session
    seen: list[str] = []

    def again(request: ModelRequest) -> ModelResponse:
        seen.extend(message.text for message in request.messages)
        return says("two")

    elsewhere = options | {"workspace": folder.parent}
    async with Agent(model=ScriptedModel([again]), resume="last", **elsewhere) as agent:
        assert (await agent.run("second words")).text == "two"
        assert agent.session == f"{name}-2", "it had ended"
    assert seen[1:] == ["first words", "one", "second words"]


async def test_what_cannot_be_opened_says_why_in_one_sentence(options: dict[str, Any], tmp_path: Path) -> None:
    for wrong, error, words in (
        ({"workspace": tmp_path / "nowhere"}, WorkspaceError, "name a directory that exists"),
        ({"resume": "nope"}, UsageError, "there is no session `nope`"),
        ({"tools": [options["tools"][0]] * 2}, UsageError, "two tools are named `read_file`"),
    ):
        with pytest.raises(error, match=words) as caught:
            await Agent(model=ScriptedModel([]), **options | wrong).open()
        assert isinstance(caught.value, ForegateError)


def test_a_model_is_chosen_by_name_environment_or_rehearsed() -> None:
    endpoint = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}

    def choose(model: str | None, environ: dict[str, str]) -> tuple[Model, tuple[str, ...]]:
        return choose_model(SessionOptions(model=model, environ=environ, config=default_configuration()))

    assert choose(None, {})[1] == (NO_ENDPOINT,)
    assert choose("rehearsal", endpoint)[1] == ()
    assert choose("big", endpoint)[0].name == "big"
    assert choose(None, endpoint | {"FOREGATE_MODEL": "small"})[0].name == "small"
    with pytest.raises(UsageError, match="no endpoint"):
        choose("big", {})

"""Sessions led in a dialect, over real HTTP: what travels, what an endpoint may refuse, and who else speaks it."""

from __future__ import annotations

import asyncio
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from foregate import Agent
from foregate.agent.models.scripted import ScriptedModel, says
from foregate.agent.planning.configuration import load_configuration
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, UsageError
from foregate.schemas.event import Event
from foregate.schemas.event_body import PolicyChanged, SessionStarted
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.views.terminal.screen import Screen
from tests.agent.models.openai.scripted_server import KEY, Reply, ScriptedServer, Stream, delta, failure, message
from tests.agent.models.openai.test_model import model_at
from tests.agent.planning.test_worked_examples import wants, wire_plan, wire_task
from tests.forever import FOREVER

READS = {
    "json": '{"tool": "read_file", "args": {"path": "a.txt"}}',
    "action_tags": "<read_file><path>a.txt</path></read_file>",
    "service_tags": "<files><read_file>a.txt</read_file></files>\n<execute_tools />",
}
SAID = message("It says teh cat.")
REFUSALS = {
    "Ollama": failure(400, "registry.ollama.ai/library/qwen:4b does not support tools", type="api_error"),
    "vLLM": Reply(
        {
            "object": "error",
            "message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        400,
    ),
    "OpenRouter": Reply(
        {"error": {"message": "No endpoints found that support tool use. To learn more, visit: x", "code": 404}}, 404
    ),
    "llama.cpp": Reply(
        {"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}}, 500
    ),
    "an older llama.cpp": Reply(
        {"error": {"code": 500, "message": "Unsupported param: tools", "type": "server_error"}}, 500
    ),
}


@pytest.fixture
def where(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Options of an agent in a workspace with one file, over a log in memory."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "FOREGATE_MODEL", "FOREGATE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    (folder / "a.txt").write_text("teh cat\n")
    return {"workspace": folder, "log": MemoryLog()}


def written(body: dict[str, Any]) -> str:
    """Return all that a request says."""
    return "\n".join(str(part.get("content")) for part in body["messages"])


@pytest.mark.parametrize("dialect", sorted(READS))
async def test_tools_are_taught_in_words_and_never_sent_where_a_dialect_is_spoken(
    where: dict[str, Any], dialect: str
) -> None:
    async with (
        ScriptedServer(message(READS[dialect]), SAID) as server,
        Agent(model=model_at(server), dialect=dialect, **where) as agent,
    ):
        outcome = await agent.run("what does a.txt say?")
        started = (await where["log"].read(agent.session))[0].body
    assert (outcome.status, outcome.text, started.dialect) == ("completed", "It says teh cat.", dialect)
    first, last = server.requests
    assert not any({"tools", "tool_choice"} & body.keys() for body in server.requests)
    assert "read_file" in first["messages"][0]["content"]
    assert [part["role"] for part in last["messages"]] == ["system", "user", "assistant", "user"]
    assert "teh cat" in last["messages"][-1]["content"]
    assert ("stop" in first) == (dialect == "service_tags")
    assert len(first.get("stop", ())) <= 4


async def test_an_endpoint_that_refuses_stop_is_asked_without_it_from_then_on(where: dict[str, Any]) -> None:
    invented = f"{READS['service_tags']}\n<result>dog</result>\nFinal Answer: dog"
    async with (
        ScriptedServer(message(invented), SAID, reasoning=True) as server,
        Agent(model=model_at(server), dialect="service_tags", **where) as agent,
    ):
        outcome = await agent.run("what does a.txt say?")
    assert outcome.text == "It says teh cat."
    assert ["stop" in body for body in server.requests] == [True, False, False]
    assert "dog" not in written(server.requests[-1])


async def test_auto_takes_native_calls_as_they_are(where: dict[str, Any]) -> None:
    async with (
        ScriptedServer(wants("read_file", {"path": "a.txt"}), SAID) as server,
        Agent(model=model_at(server), dialect="auto", **where) as agent,
    ):
        assert (await agent.run("what does a.txt say?")).text == "It says teh cat."
    assert all(body["tools"] for body in server.requests)
    assert [part["role"] for part in server.requests[-1]["messages"]] == ["system", "user", "assistant", "tool"]


@pytest.mark.parametrize("dialect", sorted(READS))
async def test_auto_takes_calls_a_model_wrote_into_its_text(where: dict[str, Any], dialect: str) -> None:
    async with (
        ScriptedServer(message(READS[dialect]), SAID) as server,
        Agent(model=model_at(server), dialect="auto", **where) as agent,
    ):
        assert (await agent.run("what does a.txt say?")).text == "It says teh cat."
    assert server.requests[-1]["messages"][-1]["role"] == "tool"
    assert "teh cat" in server.requests[-1]["messages"][-1]["content"]


@pytest.mark.parametrize("dialect", sorted(READS))
async def test_words_of_a_model_in_auto_are_shown_as_they_stream_and_its_calls_never(
    where: dict[str, Any], dialect: str
) -> None:
    shown: list[str] = []
    said = f"I look.\n{READS[dialect]}"
    pieces = [delta(content=said[at : at + 7]) for at in range(0, len(said), 7)]
    async with (
        ScriptedServer(Stream([*pieces, delta("stop")]), Stream([delta("stop", content="Seen.")])) as server,
        Agent(model=model_at(server), dialect="auto", on_text=shown.append, **where) as agent,
    ):
        await agent.run("what does a.txt say?")
    assert "".join(shown).replace("\n", "") == "I look.Seen."


@pytest.mark.parametrize("dialect", sorted(READS.keys() - {"json"}))
async def test_a_look_is_taken_early_where_the_configuration_says_so_and_is_shown_with_its_call(
    where: dict[str, Any], dialect: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("version: 1\nstreaming: {execute: observations}\n")
    screen, looked = Screen(Console(file=StringIO(), width=80)), asyncio.Event()

    def heard(event: Event) -> None:
        screen.show_event(event)
        if event.kind == "tool_finished":
            looked.set()

    events = [delta(content=f"I look. {READS[dialect]}"), looked, delta("stop", content=" So much for that.")]
    async with (
        asyncio.timeout(FOREVER),  # the server does not go on before the look is over
        ScriptedServer(Stream(events), message("It says teh cat.")) as server,
        Agent(model=model_at(server), dialect=dialect, config=config, **where) as agent,
    ):
        (await agent.open()).subscribe(heard)
        assert (await agent.run("what does a.txt say?")).text == "It says teh cat."
        bodies = [
            strict_json.dump(event.body) | {"kind": event.kind} for event in await where["log"].read(agent.session)
        ]
    marks = [(body["kind"], "early" in body, "look" in body) for body in bodies]
    assert [mark for mark in marks if mark[1] or mark[2]] == [
        ("turn_judged", True, False),
        ("tool_started", True, False),
        ("tool_finished", True, False),
        ("tool_started", False, True),
        ("tool_finished", False, True),
    ]
    assert screen.console.file.getvalue().count("ran     read_file a.txt") == 1  # type: ignore[attr-defined]


async def test_what_a_model_in_auto_thinks_aloud_is_neither_shown_nor_answered(
    where: dict[str, Any],
) -> None:
    shown: list[str] = []
    said = "<think>I need no tool.</think>It says teh cat."
    pieces = [delta(content=said[at : at + 7]) for at in range(0, len(said), 7)]
    async with (
        ScriptedServer(Stream([*pieces, delta("stop")])) as server,
        Agent(model=model_at(server), dialect="auto", on_text=shown.append, **where) as agent,
    ):
        assert (await agent.run("what does a.txt say?")).text == "It says teh cat."
        (response,) = [e.body for e in await where["log"].read(agent.session) if e.kind == "model_response"]
    assert ("".join(shown), response.reasoning) == ("It says teh cat.", "I need no tool.")


@pytest.mark.parametrize("endpoint", sorted(REFUSALS))
async def test_auto_teaches_an_endpoint_that_takes_no_tools_and_does_not_offer_them_again(
    where: dict[str, Any], endpoint: str
) -> None:
    async with (
        ScriptedServer(REFUSALS[endpoint], message(READS["json"]), SAID, SAID) as server,
        Agent(model=model_at(server), dialect="auto", **where) as agent,
    ):
        assert (await agent.run("what does a.txt say?")).text == "It says teh cat."
        assert (await agent.run("sure?")).text == "It says teh cat."
    assert ["tools" in body for body in server.requests] == [True, False, False, False]
    assert '- "read_file"' in server.requests[1]["messages"][0]["content"]


async def test_an_endpoint_that_fails_is_asked_again_even_where_its_words_are_of_tools(where: dict[str, Any]) -> None:
    broke = failure(500, "the tool call parser is not available just now")
    async with (
        ScriptedServer(broke, SAID) as server,
        Agent(model=model_at(server), dialect="auto", **where) as agent,
    ):
        assert (await agent.run("what does a.txt say?")).text == "It says teh cat."
    assert ["tools" in body for body in server.requests] == [True, True]


async def test_an_endpoint_that_takes_no_tools_is_one_sentence_where_nothing_else_was_asked_for(
    where: dict[str, Any],
) -> None:
    async with (
        ScriptedServer(REFUSALS["Ollama"]) as server,
        Agent(model=model_at(server), **where) as agent,
    ):
        outcome = await agent.run("what does a.txt say?")
    assert outcome.status == "failed"
    assert "takes no tools for the model `m` (" in outcome.report.blocker
    assert outcome.report.blocker.endswith("; use another model, or `--dialect json`")


@pytest.mark.parametrize(
    ("said", "is_there"),
    [
        (
            json.dumps(
                {"tool": "write_file", "args": {"path": "b.html", "content": "\n<delete_path>a.txt</delete_path>\n"}}
            ),
            "\n<delete_path>a.txt</delete_path>\n",
        ),
        (
            '<create_file><path>b.html</path><content>{"tool": "delete_path", "args": {"path": "a.txt"}}</content>'
            "</create_file>",
            '{"tool": "delete_path", "args": {"path": "a.txt"}}',
        ),
    ],
)
async def test_auto_never_takes_what_is_written_into_a_file_for_a_call_of_another_dialect(
    where: dict[str, Any], folder: Path, said: str, is_there: str
) -> None:
    text = "I create b.html and write the example into it.\n"
    async with (
        ScriptedServer(message(text + said), message("Done.")) as server,
        Agent(model=model_at(server), dialect="auto", **where) as agent,
    ):
        await agent.run("create b.html with an example")
        names = [call.name for event in await where["log"].read(agent.session)
                 if event.kind == "model_response" for call in event.body.calls]  # fmt: skip
    assert names == ["write_file"]
    assert ((folder / "b.html").read_text(), (folder / "a.txt").exists()) == (is_there, True)


async def test_a_session_that_is_resumed_keeps_its_dialect(where: dict[str, Any]) -> None:
    async with ScriptedServer(SAID, message(READS["action_tags"]), SAID) as server:
        first = Agent(model=model_at(server), dialect="action_tags", **where)
        await first.run("hello")
        name = first.session
        opened = first._opened
        assert opened is not None
        await opened.close(end=False)
        async with Agent(model=model_at(server), resume=name, **where) as again:
            assert (await again.run("what does a.txt say?")).text == "It says teh cat."
    assert not any("tools" in body for body in server.requests)


async def test_a_session_resumed_in_another_dialect_says_so_in_its_log_and_goes_on_with_it(
    where: dict[str, Any],
) -> None:
    async def answered(text: str, dialect: str | None = None, resume: str = "") -> tuple[str, str]:
        """Return the session and what it came to, given what the model says first."""
        agent = Agent(model=ScriptedModel([says(text), says("Seen.")]), dialect=dialect, resume=resume, **where)
        outcome = await agent.run("what does a.txt say?")
        assert agent._opened is not None
        await agent._opened.close(end=False)
        return agent.session, outcome.text

    name, said = await answered(READS["json"], "json")
    assert said == "Seen."
    assert (await answered(READS["action_tags"], "action_tags", name))[1] == "Seen."
    assert (await answered(READS["action_tags"], None, name))[1] == "Seen."
    words = f"It is {READS['action_tags']} there."
    assert (await answered(words, "native", name))[1] == words
    assert (await answered(words, None, name))[1] == words
    changes = [e for e in await where["log"].read(name) if isinstance(e.body, (SessionStarted, PolicyChanged))]
    told = [(e.kind, e.actor, e.body.dialect) for e in changes if e.body.dialect]
    assert told == [
        ("session_started", "foregate", "json"),
        ("policy_changed", "person", "action_tags"),
        ("policy_changed", "person", "native"),
    ]


async def test_a_child_speaks_the_dialect_of_its_parent(where: dict[str, Any]) -> None:
    delegates = '{"tool": "delegate", "args": {"task": "read a.txt"}}'
    async with (
        ScriptedServer(message(delegates), message(READS["json"]), SAID, message("The child read it.")) as server,
        Agent(model=model_at(server), dialect="json", **where) as agent,
    ):
        assert (await agent.run("have somebody read a.txt")).text == "The child read it."
    log = where["log"]
    assert [(await log.read(name))[0].body.dialect for name in await log.sessions()] == ["json", "json"]
    assert not any("tools" in body for body in server.requests)
    assert '- "read_file"' in server.requests[1]["messages"][0]["content"]


async def test_a_plan_is_asked_for_as_strict_json_and_its_tasks_are_filled_in_in_the_dialect(
    where: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    planned = wire_plan("Read it", wire_task(1, "Read what says teh.", action="read_file", target="*.txt"))
    answer = message(json.dumps({"answer": "It says teh cat.", "plan": None}))
    config = tmp_path / "config.yaml"
    async with (
        ScriptedServer(planned, answer) as planner,
        ScriptedServer(message(READS["service_tags"])) as worker,
    ):
        models = {
            "planning": {"provider": "openai", "base_url": planner.url},
            "execution": {"provider": "openai", "base_url": worker.url},
        }
        config.write_text(json.dumps({"dialect": {"name": "service_tags"}, "models": models}))
        async with Agent(model=model_at(planner), config=config, **where) as agent:
            planning = await agent.plan("read a.txt")
            assert planning.plan is not None, planning.defects
            report = await agent.execute(planning.plan, confirmed=True)
    assert (report.status, report.answer) == ("completed", "It says teh cat.")
    assert [body["response_format"]["type"] for body in planner.requests] == ["json_schema", "json_schema"]
    assert not any("stop" in body or "execute_tools" in written(body) for body in planner.requests)
    assert "tools" not in worker.requests[0]
    assert "<execute_tools />" in worker.requests[0]["messages"][0]["content"]


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ({"name": "xml"}, "native"),
        ({"name": "action_tags", "tags": {"no tag!": "read_file"}}, "cannot be a tag"),
        ({"name": "action_tags", "tags": ["read_file"]}, "dialect.tags"),
        ({"name": "service_tags", "parameters": {"read_file": {"file": ""}}}, "`parameters.read_file` holds `file`"),
        ({"names": {}}, "names"),
        ({"tags": {"execute_command": "run_shell"}}, "the policy does, by `commands.execute_command: run_shell`"),
        ({"name": "native", "services": {"a b": "files"}}, "config.yaml:1: `dialect`: `services` holds `a b`"),
    ],
)
async def test_a_wrong_dialect_in_the_configuration_is_one_sentence_and_nothing_is_opened(
    where: dict[str, Any], tmp_path: Path, section: dict[str, Any], why: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"dialect": section}))
    with pytest.raises(ForegateError, match=why) as caught:
        await Agent(config=config, **where).open()
    assert "\n" not in str(caught.value)
    assert await where["log"].sessions() == []


async def test_a_dialect_nobody_knows_is_one_sentence(where: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="there is no dialect `xml`; choose one of native, json, action_tags"):
        await Agent(dialect="xml", **where).open()
    assert load_configuration(None, {}).dialect.name == "native"


async def test_the_policy_in_force_says_whether_a_shell_gets_execute_command(
    where: dict[str, Any], tmp_path: Path
) -> None:
    policy, line = tmp_path / "policy.yaml", "<execute_command>ls | wc -l</execute_command>"
    policy.write_text("commands: {execute_command: run_shell}")

    async def called(**more: Any) -> tuple[str, str, bool]:
        """Return the session, which tool the line is a call of, and whether it was refused as what needs a shell."""
        model = ScriptedModel([says(line), says("I see.")])
        agent = Agent(model=model, **{"dialect": "action_tags", **where, **more})
        await agent.run("count the files")
        (call,) = [e for e in await where["log"].read(agent.session) if e.kind == "model_response"][-2].body.calls
        assert agent._opened is not None
        await agent._opened.close(end=False)
        return agent.session, call.name, "each with a tag of its own" in model.requests[-1].messages[-1].text

    assert (await called())[1:] == ("run_command", True)
    assert (await called(policy=policy, dialect="auto"))[1:] == ("run_shell", False)
    name, *found = await called(policy=policy)
    assert found == ["run_shell", False]
    assert (await called(resume=name, dialect=None))[1:] == ("run_command", True)
    (where["workspace"] / ".foregate.yaml").write_text("commands: {execute_command: run_command}")
    assert (await called(policy=policy))[1:] == ("run_command", True)

"""What an endpoint turned out not to do outlives the process, for this endpoint, model and version alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.dialects.dialect_model import build_dialect_model
from foregate.agent.models.openai.model import OpenAIModel
from foregate.assembly.choices import choose_model
from foregate.assembly.learnt_endpoints import LearntEndpoints
from foregate.assembly.setting import SessionOptions
from foregate.schemas.errors import ToolsRefused, WorkspaceError
from foregate.schemas.message import ModelRequest
from tests.agent.models.openai.scripted_server import KEY, Reply, ScriptedServer, failure, message
from tests.agent.models.openai.test_model import HELLO, tool


def refuse_choice(body: dict[str, Any]) -> Reply | None:
    return failure(400, "tool_choice is not supported") if "tool_choice" in body else None


async def ask(server: ScriptedServer, home: Path, model: str = "m") -> tuple[str, ...]:
    """Ask once as a new process would; return what a person is told at the start."""
    environ = {
        "FOREGATE_HOME": str(home),
        "OPENAI_BASE_URL": server.url,
        "OPENAI_API_KEY": KEY,
        "FOREGATE_MODEL": model,
    }
    made, notes = choose_model(SessionOptions(environ=environ))
    await made.respond(ModelRequest(HELLO.messages, [tool()]))
    return notes


def count_refused(server: ScriptedServer) -> int:
    return sum("tool_choice" in body for body in server.requests)


async def test_what_was_learnt_is_known_to_the_next_process_for_that_model_alone(tmp_path: Path) -> None:
    async with ScriptedServer(*[message("hi")] * 3, objects=refuse_choice, models=["m", "n"]) as server:
        await ask(server, tmp_path)
        await ask(server, tmp_path)
        assert count_refused(server) == 1
        await ask(server, tmp_path, "n")
    assert count_refused(server) == 2
    assert (tmp_path / "endpoints.json").stat().st_mode & 0o777 == 0o600
    assert KEY not in (tmp_path / "endpoints.json").read_text()


@pytest.mark.parametrize("held", ["{", "[]", '{"foregate": "0.0.1"}', "", "\0", None])
async def test_what_another_version_or_nobody_wrote_is_thrown_away(tmp_path: Path, held: str | None) -> None:
    file = tmp_path / "endpoints.json"
    async with ScriptedServer(*[message("hi")] * 3, objects=refuse_choice) as server:
        await ask(server, tmp_path)
        kept = json.loads(file.read_text())
        wrong = {**kept, "endpoints": [{**kept["endpoints"][0], "learnt": {"stop": {"x": 1}}}]}
        file.write_text(json.dumps(wrong) if held is None else held)
        notes = await ask(server, tmp_path)
        await ask(server, tmp_path)
    assert count_refused(server) == 2
    assert bool(notes) == (held != '{"foregate": "0.0.1"}')
    assert json.loads(file.read_text()) == kept


async def test_a_model_made_in_a_library_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path))
    async with ScriptedServer(message("hi"), objects=refuse_choice) as server:
        await OpenAIModel("m", base_url=server.url, api_key=KEY).respond(ModelRequest(HELLO.messages, [tool()]))
    assert list(tmp_path.iterdir()) == []


def test_only_so_many_are_kept_and_one_can_be_dropped(tmp_path: Path) -> None:
    file = tmp_path / "home" / "endpoints.json"
    for number in range(205):
        LearntEndpoints(file).keep("http://h/v1", f"m{number}", {"room": number + 1})
    kept = LearntEndpoints(file)
    assert [kept.read("http://h/v1", f"m{number}") for number in (0, 5, 204)] == [{}, {"room": 6}, {"room": 205}]
    kept.keep("http://h/v1", "m204", {})
    assert LearntEndpoints(file).read("http://h/v1", "m204") == {}


async def test_a_home_that_cannot_be_written_is_said_and_does_not_stop_the_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    heard: list[str] = []
    kept = LearntEndpoints(tmp_path / "file" / "endpoints.json")
    with pytest.raises(WorkspaceError):
        kept.keep("a", "m", {"room": 1})
    async with ScriptedServer(message("hi"), objects=refuse_choice) as server:
        model = OpenAIModel("m", base_url=server.url, api_key=KEY, kept=kept, on_retry=heard.append)
        assert (await model.respond(ModelRequest(HELLO.messages, [tool()]))).text == "hi"
    assert "could not be kept" in heard[0]


async def test_tools_that_were_refused_are_written_into_the_text_at_once_by_auto_and_offered_natively_else(
    tmp_path: Path,
) -> None:
    def refuse(body: dict[str, Any]) -> Reply | None:
        return failure(400, "m does not support tools") if "tools" in body else None

    async with ScriptedServer(*[message("hi")] * 2, objects=refuse) as server:
        for dialect in ("auto", "auto", "native"):
            made = OpenAIModel("m", base_url=server.url, api_key=KEY, kept=LearntEndpoints(tmp_path / "endpoints.json"))
            asked = build_dialect_model(made, dialect).respond(ModelRequest(HELLO.messages, [tool()]))
            if dialect == "native":
                with pytest.raises(ToolsRefused):
                    await asked
            else:
                assert (await asked).text == "hi"
    assert ["tools" in body for body in server.requests] == [True, False, False, True]

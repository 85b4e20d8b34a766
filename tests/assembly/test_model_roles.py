"""Which model plans and which fills in calls, over real HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foregate import Agent
from foregate.agent.models.scripted import ScriptedModel
from foregate.agent.planning.configuration import load_configuration
from foregate.schemas.errors import UsageError
from foregate.telemetry.log.memory_log import MemoryLog
from tests.agent.models.openai.scripted_server import KEY, ScriptedServer, message
from tests.agent.planning.test_worked_examples import wants, wire_plan, wire_task


async def test_an_agent_plans_and_executes_with_the_models_of_its_configuration_and_their_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, file = tmp_path / "ws", tmp_path / "config.yaml"
    folder.mkdir()
    (folder / "a.txt").write_text("teh cat\n")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    planned = wire_plan("Read it", wire_task(1, "Look for it.", action="search_text", target="a.txt"))
    answer = message(json.dumps({"answer": "It says teh cat.", "plan": None}))
    async with (
        ScriptedServer(planned, answer) as planner,
        ScriptedServer(wants("search_text", {"path": "a.txt", "pattern": "teh"})) as worker,
    ):
        models = {
            "planning": {"provider": "openai", "base_url": planner.url, "temperature": 0.7, "max_tokens": 900},
            "execution": {"provider": "openai", "base_url": worker.url, "temperature": 0.2, "max_tokens": 300},
        }
        file.write_text(json.dumps({"models": models}))
        own = ScriptedModel([])
        async with Agent(model=own, workspace=folder, config=file, log=MemoryLog()) as agent:
            planning = await agent.plan("read a.txt")
            assert planning.plan is not None, planning.defects
            report = await agent.execute(planning.plan, confirmed=True)
        own.finish()
    assert report.status == "completed", report
    sent = [(body["temperature"], body["max_tokens"]) for server in (planner, worker) for body in server.requests]
    assert sent == [(0.7, 900), (0.7, 900), (0.2, 300)]
    assert report.answer == "It says teh cat."


async def test_a_role_without_an_endpoint_is_refused_when_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "FOREGATE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "config.yaml"
    file.write_text("models: {planning: {provider: openai}}\n")
    configuration = load_configuration(file)
    async with Agent(model=ScriptedModel([]), workspace=tmp_path, config=configuration, log=MemoryLog()) as agent:
        with pytest.raises(UsageError, match="names no endpoint; give it a `base_url`"):
            await agent.plan("read a.txt")

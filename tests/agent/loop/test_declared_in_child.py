"""What a person declares while a child task runs holds in the task that started it."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate import Agent
from foregate.schemas.protocols import Reply
from foregate.testing import ScriptedModel, ScriptedPerson, calls, says
from tests.agent.loop.test_declared_tools import POLICY, Service


async def test_a_declaration_given_in_a_child_task_spares_its_parent_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "home"))
    (tmp_path / "w").mkdir()
    service, person = Service(), ScriptedPerson([Reply("yes", declared={"lookup": "reads"}, named={"c5.1": ("ash",)})])
    look = ("lookup", {"word": "ash"})
    steps = [calls(("delegate", {"task": "look up ash"})), calls(look), says("a tree"), calls(look), says("a tree")]
    agent = Agent(
        model=ScriptedModel(steps), tools=[service.tool], workspace=tmp_path / "w", person=person, policy=POLICY
    )
    async with agent:
        await agent.run("What is ash?")
    assert len(service.done) == 2
    assert len(person.needs) == 1

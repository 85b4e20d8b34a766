"""Fixtures: real servers in processes of their own, behind a real session with the judge."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson, Step
from foregate.agent.tools.mcp.definition import Pins
from foregate.agent.tools.mcp.mcp_tools import McpTools
from foregate.agent.tools.mcp.server_configuration import read_servers
from foregate.agent.workspace.workspace import Workspace
from foregate.api import Agent
from foregate.policy.policy import Policy
from foregate.schemas.event import Event
from foregate.schemas.protocols import Person
from tests.forever import FOREVER
from tests.policies import policy_with

HOSTILE = Path(__file__).with_name("hostile_server.py")
QUICK = {
    "narration.mode": "off",
    "uncertainty.mode": "off",
    "plan.mode": "off",
    "critique.mode": "off",
    "mcp.backoff": 1,
    "mcp.stop_timeout": 1,
}
"""Only approval asks, and nothing waits longer than it must."""


@dataclass
class Bench:
    """A folder with a configuration, a home and a workspace; `journal` holds what a hostile server really did."""

    root: Path
    workspace: Path
    space: Workspace
    home: Path
    file: Path
    journal: Path

    def serve(self, servers: Mapping[str, Any]) -> Path:
        """Write the configuration."""
        self.file.write_text(json.dumps({"mcpServers": servers}))
        return self.file

    def hostile(self, mode: str = "plain", **more: Any) -> Path:
        """Write a configuration with the hostile server as `bad`."""
        env = {"HOSTILE_JOURNAL": str(self.journal)}
        server = {"command": sys.executable, "args": [str(HOSTILE), mode], "env": env, "call_timeout": FOREVER, **more}
        return self.serve({"bad": server})

    async def listed(self, policy: Policy | None = None, **environ: str) -> McpTools:
        """Start the configured servers without a session; whoever calls closes them."""
        configured, _ = read_servers(self.file)
        policy = policy or policy_with(QUICK)
        pins = Pins(self.home / "mcp-pins.json")
        return await McpTools.start(configured, policy, pins, {"PATH": "/usr/bin:/bin", **environ}, self.space)

    async def pin(self) -> None:
        """Pin everything that can be pinned, as it is now."""
        self.home.mkdir(exist_ok=True)
        servers = await self.listed()
        try:
            assert servers.failed == {}
            servers.pins.pin([d for s in servers.servers for d in s.definitions if not d.problem], "2026-01-01")
        finally:
            await servers.close()

    def agent(self, *steps: Step, person: Person | None = None, keys: Mapping[str, Any] | None = None) -> Agent:
        """Return an agent over the configured servers."""
        policy = policy_with({**QUICK, **(keys or {})})
        return Agent(model=ScriptedModel(steps), workspace=self.workspace, policy=policy, mcp=self.file, person=person)

    async def play(
        self,
        *steps: Step,
        replies: list[Any] | None = None,
        keys: Mapping[str, Any] | None = None,
        say: str = "do it with the tool",
    ) -> tuple[list[Event], Agent]:
        """Run one task to its end; return its events, and the agent with its notes."""
        person = ScriptedPerson(replies) if replies is not None else None
        async with self.agent(*steps, person=person, keys=keys) as agent:
            events = [event async for event in agent.events(say)]
            self.notes = agent.notes
        if person is not None:
            person.finish()
        return events, agent

    async def wait(self, done: list[str]) -> None:
        """Wait until the hostile server has done exactly that."""
        async with asyncio.timeout(FOREVER):
            while self.done != done:  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.01)

    @property
    def done(self) -> list[str]:
        """What the hostile server really did."""
        return self.journal.read_text().splitlines() if self.journal.exists() else []


@pytest.fixture
def bench(tmp_path: Path, folder: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench with nothing on it."""
    home = tmp_path / "home"
    monkeypatch.setenv("FOREGATE_HOME", str(home))
    monkeypatch.delenv("FOREGATE_MCP", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Bench(tmp_path, folder, workspace, home, tmp_path / "mcp.json", tmp_path / "journal")

"""MCP servers and the face: none by themselves in a library, and nobody but the person says which processes start."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.api import Agent
from foregate.schemas.errors import SessionHeld, UsageError, WorkspaceError
from foregate.telemetry.log.memory_log import MemoryLog
from tests.agent.tools.mcp.conftest import HOSTILE
from tests.forever import FOREVER


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and no configuration but the test's."""
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("FOREGATE_MCP", raising=False)
    return tmp_path / "home"


def configuration(file: Path, script: Path, journal: Path) -> Path:
    """Write a configuration with one server that writes down its number as it starts."""
    env = {"HOSTILE_JOURNAL": str(journal)}
    server = {"command": sys.executable, "args": [str(script), "family"], "env": env}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": {"a": server}}))
    return file


async def test_neither_a_library_nor_a_workspace_starts_a_server_that_nobody_named(
    home: Path, folder: Path, tmp_path: Path
) -> None:
    for place in (tmp_path / "config/foregate/mcp.json", folder / "mcp.json", folder / ".mcp.json"):
        configuration(place, HOSTILE, tmp_path / "journal")
    async with Agent(model=ScriptedModel([says("hi")]), workspace=folder) as agent:
        await agent.run("hello")
    assert not (tmp_path / "journal").exists()


async def test_what_decides_which_processes_start_is_not_the_agents_to_write(home: Path, folder: Path) -> None:
    script = folder / "server.py"
    script.write_text(HOSTILE.read_text())
    file = configuration(folder / "servers.json", script, folder / "journal")
    wanted = ["servers.json", "server.py"]
    model = ScriptedModel(
        [
            calls(
                *((("write_file"), {"path": path, "content": "x"}) for path in wanted), text="I will write both now."
            ),
            says("no"),
        ]
    )
    async with Agent(model=model, workspace=folder, mcp=file) as agent:
        told = [e.body.code async for e in agent.events("write both") if e.kind == "call_answered"]
    assert told == ["denied_by_rule"] * 2
    assert script.read_text() == HOSTILE.read_text()


async def test_the_users_own_place_is_guarded_before_there_is_anything(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path.parent / f"{tmp_path.name}-home"))
    wanted = "config/foregate/mcp.json"
    model = ScriptedModel(
        [calls(("write_file", {"path": wanted, "content": "{}"}), text="I will write that file now."), says("no")]
    )
    async with Agent(model=model, workspace=tmp_path) as agent:
        told = [e.body.code async for e in agent.events(f"write {wanted}") if e.kind == "call_answered"]
    assert told == ["denied_by_rule"]


def ended(journal: Path) -> bool:
    """Whether the processes a server wrote down are gone."""

    def gone(pid: str) -> bool:
        status = Path(f"/proc/{pid}/status")
        return not status.exists() or "\nState:\tZ" in status.read_text()

    pids = journal.read_text().split()
    return bool(pids) and all(map(gone, pids))


async def test_a_session_that_cannot_be_opened_leaves_no_server_behind(
    home: Path, folder: Path, tmp_path: Path
) -> None:
    log, journal = MemoryLog(), tmp_path / "journal"
    file = configuration(tmp_path / "mcp.json", HOSTILE, journal)
    first = Agent(model=ScriptedModel([]), workspace=folder, log=log)
    await first.open()
    with pytest.raises(SessionHeld):
        await Agent(model=ScriptedModel([]), workspace=folder, log=log, resume=first.session, mcp=file).open()
    async with asyncio.timeout(FOREVER):
        while not ended(journal):  # noqa: ASYNC110 - the system takes its time to clear up
            await asyncio.sleep(0.01)
    await first.close()


async def test_damaged_pins_start_nothing(home: Path, folder: Path, tmp_path: Path) -> None:
    home.mkdir()
    (home / "mcp-pins.json").write_text("{")
    file = configuration(tmp_path / "mcp.json", HOSTILE, tmp_path / "journal")
    with pytest.raises(WorkspaceError, match="pinned MCP tools"):
        await Agent(model=ScriptedModel([]), workspace=folder, mcp=file).open()
    assert not (tmp_path / "journal").exists()


async def test_without_the_extra_one_sentence_says_what_to_install(
    home: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("foregate.agent.tools.mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    file = configuration(tmp_path / "mcp.json", HOSTILE, tmp_path / "journal")
    with pytest.raises(UsageError, match=r"install `foregate\[mcp\]`"):
        await Agent(model=ScriptedModel([]), workspace=folder, mcp=file).open()

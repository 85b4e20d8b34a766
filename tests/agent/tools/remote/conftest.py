"""Fixtures: a runtime in a process of its own, an agent that uses it, and a wire between them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.tools.remote.worlds import Gate, RemoteAgent, RuntimeProcess, Wire

Started = Callable[..., RuntimeProcess]


@pytest.fixture
def serve(tmp_path: Path, folder: Path) -> Iterator[Started]:
    """Starts the runtime over `folder`, with changes to its policy."""
    started: list[RuntimeProcess] = []

    def start(**policy: Any) -> RuntimeProcess:
        runtime = RuntimeProcess(folder, tmp_path / "runtime-home", policy)
        started.append(runtime)
        runtime.start()
        return runtime

    (folder / "a.txt").write_text("teh cat\n")
    yield start
    for runtime in started:
        if runtime.process is not None:
            runtime.end()


@pytest.fixture
async def wired(tmp_path: Path) -> AsyncIterator[Callable[[RuntimeProcess], Any]]:
    """Gives a wire to a runtime, and an agent that uses it through the wire."""
    wires: list[Wire] = []

    async def joined(runtime: RuntimeProcess) -> tuple[Wire, RemoteAgent]:
        wire = Wire(runtime.port)
        await wire.start()
        wires.append(wire)
        return wire, RemoteAgent(tmp_path / "agent-home", wire.port)

    yield joined
    for wire in wires:
        await wire.stop()


@pytest.fixture
def agent(tmp_path: Path) -> Callable[[RuntimeProcess], RemoteAgent]:
    """Gives an agent that uses a runtime."""
    return lambda runtime: RemoteAgent(tmp_path / "agent-home", runtime.port)


@pytest.fixture
def gate(folder: Path) -> Iterator[Gate]:
    """The waiting program in the workspace."""
    made = Gate(folder)
    yield made
    made.close()

"""Fixtures: a workspace on a real file system, and a session over the real loop with a scripted model."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from foregate.agent.models.scripted import ScriptedModel, Step
from foregate.agent.sandbox.probe import Probe
from foregate.agent.session.session import Session
from foregate.agent.tools.files import edit_file, read_file
from foregate.agent.tools.tool import Tool, Toolbox
from foregate.agent.workspace import confinement, work_sandbox
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy
from foregate.schemas.protocols import Person
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each process that tests start would compile Foregate anew
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and so it would be by what tests start
# What is drawn changes with its test alone, so that a run fails only by what changed; and no time is measured.
settings.register_profile(
    "foregate", deadline=None, max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("foregate")
gc.disable()


def pytest_collection_finish() -> None:
    """Leave what is there by now, which stays until the end, to itself: nobody need look through it again and again."""
    gc.freeze()
    gc.set_threshold(2_000, 10, 100)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No variable of OpenTelemetry from outside, and no home of the person who runs the tests.

    What is in that home may be newer, broken, or dear to them. A test that wants any of it sets it.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("OTEL_")]:
            patch.delenv(name)
        usual_data = str(tmp_path_factory.mktemp("data"))
        patch.delenv("FOREGATE_HOME", raising=False)
        patch.setenv("XDG_DATA_HOME", usual_data)
        patch.setenv("XDG_CACHE_HOME", usual_data)
        yield


@pytest.fixture
def no_sandboxes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without sandboxes: what a command would do is known from its words alone."""
    none = Probe(tier="none", reason="this is a test", cure="")
    for module in (confinement, work_sandbox):
        monkeypatch.setattr(module, "_probe", lambda *about: none)


OpenSession = Callable[..., Awaitable[Session]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for a workspace, away from everything else of the test."""
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def workspace(folder: Path) -> Iterator[Workspace]:
    """The workspace over `folder`."""
    space = LocalWorkspace(folder)
    yield space
    space.close()


@pytest.fixture
def policy() -> Policy:
    """The embedded default policy."""
    return default_policy()


@pytest.fixture
async def open_session(workspace: Workspace, policy: Policy) -> AsyncIterator[OpenSession]:
    """Opens started sessions over a scripted model; at the end every script must be played to its end."""
    models: list[ScriptedModel] = []

    async def opened(
        *steps: Step,
        tools: Sequence[Tool] = (),
        policy: Policy = policy,
        person: Person | None = None,
        log: MemoryLog | None = None,
        name: str = "s",
    ) -> Session:
        model = ScriptedModel(steps)
        models.append(model)
        log = log or MemoryLog()
        session = Session(
            log=log,
            lease=await log.claim(name, create=True),
            blobs=MemoryBlobs(),
            model=model,
            tools=Toolbox([read_file(workspace, policy), edit_file(workspace, policy), *tools]),
            policy=policy,
            workspace=workspace,
            person=person,
        )
        await session.start()
        return session

    yield opened
    for model in models:
        model.finish()

"""A session never notices its exporter: not when nobody listens, not when the endpoint fails, hangs or redirects."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from foregate import Agent
from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import GENESIS, Event
from foregate.schemas.event_body import SessionEnded
from foregate.telemetry import diagnostics
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.otel import exporting, names
from foregate.telemetry.otel.exporting import Telemetry
from foregate.telemetry.queries.verify import verify_session
from tests.agent.world import World
from tests.forever import FOREVER
from tests.telemetry.otel.conftest import Receive, to
from tests.telemetry.otel.receiver import Receiver

READ = ("read_file", {"path": "a.txt"})


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits a moment only."""
    monkeypatch.setattr(exporting, "PATIENCE", 0.05)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each span is sent as soon as it has ended."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Diagnostics are on."""
    diagnostics._for_level.cache_clear()
    monkeypatch.setenv("FOREGATE_LOG", "warning")


async def through(folder: Path, endpoint: str, **more: str) -> tuple[str, MemoryLog, str]:
    """Do a task with telemetry to an endpoint; return its status, its log and the session's name."""
    (folder / "a.txt").write_text("teh cat")
    log, model = MemoryLog(), ScriptedModel([calls(READ), says("teh cat")])
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **more}
    opened = await open_session(SessionOptions(workspace=folder, model=model, log=log, environ=environ))
    assert opened.notes == ()
    outcome = await run(opened.session, "what does a.txt say?")
    await opened.close()
    return outcome.status, log, opened.name


def sound(log: MemoryLog, session: str) -> bool:
    """Whether the log holds a whole session."""
    result = verify_session(log, session)
    return result.ok and result.proven


async def test_an_endpoint_in_the_environment_is_all_it_takes(folder: Path, receiver: Receiver) -> None:
    status, log, name = await through(folder, receiver.url)
    assert status == "completed"
    assert [span.name for span in receiver.spans] == [
        "invoke_agent foregate",
        "chat scripted",
        "prelude",
        "execute_tool read_file",
        "chat scripted",
    ]
    assert receiver.spans[0].about[names.CONVERSATION] == name
    assert names.DECISIONS in receiver.metrics
    assert sound(log, name)


async def test_the_library_exports_as_the_command_line_does(
    folder: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/v1/traces")
    async with Agent(model=ScriptedModel([says("hello")]), workspace=folder, log=MemoryLog()) as agent:
        await agent.run("hello")
    assert [span.name for span in receiver.spans] == ["invoke_agent foregate", "chat scripted"]
    assert receiver.metrics == {}


async def test_a_session_opened_again_is_linked_to_what_it_exported_before(folder: Path, receive: Receive) -> None:
    first, second, log = receive(), receive(), MemoryLog()
    tidy = calls(("run_shell", {"command": "rm -rf logs"}), text="I will tidy up as you asked me to.")
    for receiver, step, resume in ((first, tidy, ""), (second, says("ok"), "last")):
        setting = SessionOptions(
            workspace=folder,
            model=ScriptedModel([step]),
            log=log,
            resume=resume,
            environ={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url},
        )
        opened = await open_session(setting)
        outcome = await run(opened.session, "only look" if resume else "clean this up")
        assert outcome.status == ("completed" if resume else "needs_input")
        await opened.close()
    began, goes_on = first.spans[0], second.spans[0]
    assert goes_on.links == [(began.trace, began.id)]


def nobody() -> str:
    """Return an address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.usefixtures("noted")
@pytest.mark.parametrize("failure", ["nobody", 500, 404, 307])
async def test_a_dead_endpoint_costs_a_session_one_line_of_diagnostics(
    failure: Any, folder: Path, receive: Receive, capfd: pytest.CaptureFixture[str]
) -> None:
    elsewhere = receive()
    url = nobody() if failure == "nobody" else receive(status=failure, location=f"{elsewhere.url}/v1/traces").url
    status, log, name = await through(folder, url)
    assert status == "completed"
    assert sound(log, name)
    (line,) = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert line["event"] == "telemetry_not_exported"
    assert line["why"] in ("spans", "metrics")  # it was refused, not waited for
    assert elsewhere.bodies == []


@pytest.mark.usefixtures("impatient", "at_once")
async def test_turns_are_taken_and_the_session_closes_while_the_endpoint_hangs(receive: Receive) -> None:
    receiver, world = receive(hangs=True), World()
    telemetry = to(receiver)
    model = [says("one"), calls(READ), says("two")]
    session = await world.open(model, listeners=[telemetry.take_event])
    await run(session, "first")
    assert receiver.asked.wait(FOREVER)
    assert (await run(session, "what does a.txt say?")).status == "completed"
    await telemetry.close()
    assert receiver.answered == 0


@pytest.mark.usefixtures("impatient", "at_once")
async def test_what_waits_for_a_hanging_endpoint_is_bounded(
    receive: Receive, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    receiver, world = receive(hangs=True), World()
    telemetry = to(receiver)
    session = await world.open([says(str(number)) for number in range(20)], listeners=[telemetry.take_event])
    await run(session, "0")
    assert receiver.asked.wait(FOREVER)
    for number in range(1, 20):
        assert (await run(session, str(number))).status == "completed"
    receiver.let_go.set()
    await telemetry.close()
    assert len(receiver.spans) < 40
    assert capfd.readouterr().err == ""


class Raises(SpanExporter):
    """An exporter with a defect."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Raise."""
        raise RuntimeError("defect")

    def shutdown(self) -> None:
        """Raise."""
        raise RuntimeError("defect")


@pytest.mark.usefixtures("noted")
async def test_an_exporter_that_raises_reaches_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    telemetry, world = Telemetry(Raises(), None, "custom"), World()
    session = await world.open([says("hello")], listeners=[telemetry.take_event])
    assert (await run(session, "hello")).status == "completed"
    await telemetry.close()
    (line,) = capfd.readouterr().err.splitlines()
    assert json.loads(line)["why"] == "RuntimeError"


@pytest.mark.usefixtures("noted")
async def test_an_event_that_cannot_be_projected_is_noted_once_and_left_out(
    receiver: Receiver, telemetry: Telemetry, capfd: pytest.CaptureFixture[str]
) -> None:
    odd = Event(1, "0", 1, "odd", "not a time", "foregate", "", GENESIS, SessionEnded(events=1), "1")
    for _ in range(3):
        telemetry.take_event(odd)
    telemetry.recall([odd])
    world = World()
    session = await world.open([says("hello")], listeners=[telemetry.take_event])
    await run(session, "hello")
    await telemetry.close()
    (line,) = capfd.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "telemetry_not_projected"
    assert [span.name for span in receiver.spans] == ["invoke_agent foregate", "chat scripted"]


def process(folder: Path, endpoint: str, level: str = "") -> list[str]:
    """Do a task in a process of its own; return its lines of standard error."""
    environ = {"FOREGATE_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin", "FOREGATE_LOG": level}
    ran = subprocess.run(
        [sys.executable, "-I", "-m", "foregate", "run", "hello", "--json", "--model", "rehearsal"],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={**environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint},
    )
    assert json.loads(ran.stdout)["status"] == "completed"
    return ran.stderr.splitlines()


def test_a_process_ends_while_the_endpoint_hangs_and_says_so_where_diagnostics_are_on(
    tmp_path: Path, receive: Receive
) -> None:
    receiver = receive(hangs=True)
    (line,) = process(tmp_path, receiver.url, "warning")
    assert json.loads(line)["why"] == "no answer in time"
    assert receiver.asked.is_set()
    assert receiver.answered == 0


@pytest.mark.parametrize("failure", ["nobody", 500])
def test_a_process_without_diagnostics_says_nothing_of_a_dead_endpoint(
    failure: Any, tmp_path: Path, receive: Receive
) -> None:
    assert process(tmp_path, nobody() if failure == "nobody" else receive(status=failure).url) == []


async def test_a_session_that_cannot_be_opened_leaves_no_exporter_behind(folder: Path, receiver: Receiver) -> None:
    before, unwritable = set(threading.enumerate()), ScriptedModel([], name="\ud800")
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
    with pytest.raises(InvalidJson):
        await open_session(SessionOptions(workspace=folder, model=unwritable, log=MemoryLog(), environ=environ))
    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert not [name for name in left if name.startswith(("Otel", "foregate-telemetry"))]

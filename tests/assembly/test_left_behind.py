"""A session whose process was ended while a command ran: nothing of it runs on, and the next process says so."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from foregate import Agent
from foregate.agent.models.scripted import ScriptedModel, says
from foregate.schemas.errors import SessionHeld
from foregate.schemas.event_body import OutcomeUnknown
from foregate.telemetry.holder import get_own_holder
from tests.events import bodies
from tests.processes import is_running

SCRIPT = """
import sys
from foregate import Agent
from foregate.agent.sandbox.probe import Probe
from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson, calls
from foregate.agent.workspace import confinement, work_sandbox

for module in (confinement, work_sandbox):  # the command runs in place
    module._probe = lambda *_: Probe(tier="none", reason="it has none", cure="")
line = "(setsid sh -c 'trap \\"\\" TERM HUP; echo $$ > pid.new; mv pid.new pid; cat fifo; echo late > late') & wait"
model = ScriptedModel([calls(("run_shell", {"command": line}), text="I will run this line now, as you asked me to.")])
settings = {"narration": {"mode": "off"}, "uncertainty": {"mode": "off"}, "critique": {"mode": "off"}}
policy = sys.argv[1]
Agent(model=model, person=ScriptedPerson(["yes"] * 3), policy=policy, workspace=".").run_sync("run the line")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a pipe that nobody writes to, beside a home and a policy that asks a person alone."""
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "home"))
    off = "".join(f"{gate}: {{mode: 'off'}}\n" for gate in ("narration", "uncertainty", "plan", "critique"))
    (tmp_path / "policy.yaml").write_text(f"version: 1\n{off}")
    made = tmp_path / "ws"
    made.mkdir()
    os.mkfifo(made / "fifo")
    return made


def start(place: Path, *before: str) -> subprocess.Popen[bytes]:
    """Start the session, and return once its command runs."""
    words = [*before, sys.executable, "-Ic", SCRIPT, str(place.parent / "policy.yaml")]
    process = subprocess.Popen(words, cwd=place)
    while not (place / "pid").exists():
        assert process.poll() is None
        os.sched_yield()
    return process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
async def test_a_resumed_session_finds_nothing_running_of_the_process_that_was_ended(
    place: Path, number: signal.Signals
) -> None:
    process = start(place)
    command = int((place / "pid").read_text())
    assert is_running(command)
    process.send_signal(number)
    process.wait()
    async with Agent(model=ScriptedModel([says("gone on")]), resume="last", workspace=place) as agent:
        session = await agent.open()
        assert not is_running(command)
        assert any(f"process {process.pid} left this session open and is gone" in note for note in agent.notes)
        assert bodies(await session.log.read(), OutcomeUnknown)
    assert not (place / "late").exists()


CONTAINER = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")


def has_containers() -> bool:
    """Whether a process of a number space of its own can be started here."""
    try:
        return subprocess.run([*CONTAINER, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not has_containers(), reason="no process can have a number space of its own here")
async def test_a_session_of_a_container_is_taken_over_once_the_container_is_gone_and_not_before(place: Path) -> None:
    process = start(place, *CONTAINER)
    settings = {"model": ScriptedModel([says("gone on")]), "resume": "last", "workspace": place}
    with pytest.raises(SessionHeld, match="of another container; close it there"):
        await Agent(**settings).open()  # type: ignore[arg-type]
    process.kill()
    process.wait()
    for mark in (place.parent / "home/holders").iterdir():
        with mark.open() as file:
            if mark.name != get_own_holder().mark:
                fcntl.flock(file, fcntl.LOCK_EX)  # until the kernel has ended the container
    async with Agent(**settings) as agent:  # type: ignore[arg-type]
        await agent.open()
        assert any("of another container left this session open and is gone" in note for note in agent.notes)
    assert not (place / "late").exists()

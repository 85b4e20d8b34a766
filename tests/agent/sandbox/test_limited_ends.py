"""How a command of the tier `limited` ends: with all it started, whoever is killed, and before it uses up too much."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.sandbox.restrictions import has_landlock
from foregate.agent.sandbox.starter import SandboxFailed, StartedProgram, Starter
from foregate.agent.sandbox.visible import plan_read
from tests.agent.sandbox.place import PATH
from tests.agent.sandbox.test_starter import ESCAPING, find_children, read_numbers
from tests.processes import is_running, wait_until_gone

pytestmark = pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock")
Shell = Callable[..., StartedProgram]
_START = """
import json, os, sys
from foregate.agent.sandbox.starter import start_program
plan = json.loads(sys.argv[1])
about = {"environment": {"PATH": os.environ["PATH"]}, "folder": os.open("/", os.O_RDONLY)}
one = start_program(["sh", "-c", sys.argv[2]], program="/bin/sh", sandbox=(plan, plan["workspace"]), **about)
os.set_blocking(one.stdout.fileno(), True)
while data := one.stdout.read(99):
    print(data.decode(), end="", flush=True)
"""


@pytest.fixture
def plan(tmp_path: Path) -> SandboxPlan:
    """A limited sandbox with a private folder in a place of the test's own."""
    for name in ("workspace", "scratch"):
        (tmp_path / name).mkdir()
    about = {"scratch": str(tmp_path / "scratch"), "scratch_bytes": 1 << 20, "limits": {"processes": 40}}
    plan = plan_read(str(tmp_path / "workspace"), PATH, str(tmp_path / "home"), **about)  # type: ignore[arg-type]
    return {**plan, "tier": "limited"}


@pytest.fixture
def starter() -> Iterator[Starter]:
    """A starter of its own."""
    made = Starter()
    yield made
    made._close()


@pytest.fixture
def shell(starter: Starter, plan: SandboxPlan) -> Iterator[Shell]:
    """Starts a line of the shell in the sandbox; `changes` replace parts of the plan."""
    started: list[StartedProgram] = []
    folder = os.open("/", os.O_RDONLY)

    def start(line: str, **changes: object) -> StartedProgram:
        inside: SandboxPlan = {**plan, **changes}  # type: ignore[typeddict-item]
        environment = {"PATH": PATH, "HOME": plan["home"]}
        about = {"program": "/bin/sh", "environment": environment, "folder": folder, "merged": True}
        started.append(starter.start(["sh", "-c", line], sandbox=(inside, plan["workspace"]), **about))  # type: ignore[arg-type]
        return started[-1]

    yield start
    os.close(folder)
    for one in started:
        one.end()


def read_all(one: StartedProgram) -> str:
    assert one.stdout is not None
    return one.stdout.read().decode()


def wait_until_removed(plan: SandboxPlan) -> None:
    """Return once no private folder is left, which is a little after the call; the tests end where that never is."""
    while list(Path(plan["scratch"]).glob("*/*")):
        os.sched_yield()


def test_a_command_ends_as_itself_and_leaves_nothing(shell: Shell, plan: SandboxPlan) -> None:
    one = shell('mkdir -p "$HOME/a/b" "$TMPDIR/c" && echo x >"$HOME/a/b/x" && cat "$HOME/a/b/x"; exit 3')
    assert (read_all(one), one.end()) == ("x\n", 3)
    wait_until_removed(plan)


def test_whatever_a_command_started_is_gone_when_it_is_ended(shell: Shell, plan: SandboxPlan) -> None:
    one = shell(ESCAPING)
    numbers = read_numbers(one)
    assert all(map(is_running, numbers))
    one.end()
    assert not any(map(is_running, numbers))
    assert one.left == 0
    wait_until_removed(plan)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_when_foregate_is_ended(plan: SandboxPlan, number: signal.Signals) -> None:
    words = [sys.executable, "-Ic", _START, json.dumps(plan), ESCAPING]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        numbers = [int(word) for _ in range(2) for word in process.stdout.readline().split()]
        (zygote,) = find_children(process.pid)
        assert all(map(is_running, numbers))
        process.send_signal(number)
        process.wait()
        wait_until_gone(zygote)  # it leaves last
    assert not any(map(is_running, numbers))
    wait_until_removed(plan)


def test_nothing_is_left_when_the_guard_of_a_command_is_killed(
    shell: Shell, starter: Starter, plan: SandboxPlan
) -> None:
    one = shell(ESCAPING)
    numbers = read_numbers(one)
    (guard,) = find_children(starter._pid)
    os.kill(guard, signal.SIGKILL)
    assert one.end() is None
    wait_until_gone(*numbers)
    shell("true").end()  # the next call sweeps what the killed guard could not remove
    wait_until_removed(plan)


def test_a_call_ends_when_the_process_that_starts_programs_is_killed(shell: Shell, starter: Starter) -> None:
    """Were its guard killed as well, nobody would be left who ends what the command has started."""
    one = shell(ESCAPING)
    numbers = read_numbers(one)
    os.kill(starter._pid, signal.SIGKILL)
    wait_until_gone(*numbers)
    one.end()
    assert "ended from outside" in one.excess


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("for n in $(seq 60); do sleep 1000 & done; wait", "processes"),
        ("for n in $(seq 60); do setsid sleep 1000 & done; sleep 1000", "processes"),
        ('for n in $(seq 20); do head -c 100000 /dev/zero >"$HOME/$n"; done; sleep 1000', "bytes"),
        ('mkdir -p "$TMPDIR/a/b" && head -c 2000000 /dev/zero >"$TMPDIR/a/b/c"; sleep 1000', "bytes"),
    ],
)
def test_a_command_that_uses_too_much_is_ended_and_it_is_said_why(shell: Shell, line: str, why: str) -> None:
    one = shell(line)
    read_all(one)
    one.end()
    assert why in one.excess


def test_a_private_folder_that_is_very_deep_or_closed_is_removed(shell: Shell, plan: SandboxPlan) -> None:
    script = "n=0; mkdir -m 0 $HOME/shut; cd $HOME; while [ $n -lt 600 ]; do mkdir d && cd d && n=$((n + 1)); done"
    # Who is not root cannot count what is in the closed one, so that what others write to the disk counts.
    one = shell(script, scratch_bytes=1 << 40)
    assert read_all(one) == ""
    assert (one.end(), one.excess) == (0, "")
    wait_until_removed(plan)


def test_a_shared_folder_of_somebody_else_is_not_used(shell: Shell, plan: SandboxPlan) -> None:
    folder = Path(plan["scratch"], f"foregate-scratch-{os.geteuid()}")
    folder.mkdir(0o777)
    folder.chmod(0o777)
    with pytest.raises(SandboxFailed, match="not this user's alone"):
        shell("true")


def test_what_cannot_be_held_is_refused(shell: Shell, plan: SandboxPlan) -> None:
    with pytest.raises(SandboxFailed, match="held back"):
        shell("true", writable=True, masks=[f"{plan['workspace']}/.env"])
    with pytest.raises(SandboxFailed, match="held back"):
        shell("true", writable=True, kept=[f"{plan['workspace']}/.git/hooks"])
    with pytest.raises(SandboxFailed, match="no copy of the workspace"):
        shell("true", upper="/nowhere")
    with pytest.raises(SandboxFailed, match="no access outside"):
        shell("true", access={**plan["access"], "network": "open"})
    with pytest.raises(SandboxFailed, match="cannot be shown"):
        shell("true", workspace="/nowhere")

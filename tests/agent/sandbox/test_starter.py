"""Programs that are started: their streams, their end, and that nothing of them outlives the call or this process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from foregate.agent.sandbox import guard
from foregate.agent.sandbox.starter import StartedProgram, Starter
from tests.processes import is_running, wait_until_gone

Shell = Callable[..., StartedProgram]
ESCAPING = 'setsid sh -c "setsid sleep 1000 & echo \\$! \\$\\$; wait" & sleep 1000 & echo $! $$; wait'
"""A program whose children leave its group and its session; it prints four numbers."""


@pytest.fixture
def starter() -> Iterator[Starter]:
    """A starter of its own."""
    made = Starter()
    yield made
    made._close()


@pytest.fixture
def shell(starter: Starter, tmp_path: Path) -> Iterator[Shell]:
    """Starts a line of the shell."""
    started: list[StartedProgram] = []
    folder = os.open(tmp_path, os.O_RDONLY)

    def start(line: str, **more: bool) -> StartedProgram:
        words = ["sh", "-c", line]
        environment = {"PATH": os.environ["PATH"]}
        started.append(starter.start(words, program="/bin/sh", environment=environment, folder=folder, **more))
        return started[-1]

    yield start
    os.close(folder)
    for one in started:
        one.end()


def read_numbers(program: StartedProgram, count: int = 4) -> list[int]:
    """Return the numbers of processes a program prints."""
    assert program.stdout is not None
    words: list[bytes] = []
    while len(words) < count:
        words += program.stdout.read(4096).split()
    return [int(word) for word in words]


def find_children(pid: int) -> list[int]:
    return guard.list_children(pid)


def test_streams_folder_and_exit_code_are_those_of_the_program(shell: Shell, tmp_path: Path) -> None:
    one = shell("pwd; echo no >&2; cat; exit 3", speaks=True)
    assert one.stdin is not None
    assert one.stdout is not None
    assert one.stderr is not None
    one.stdin.write(b"said")
    one.stdin.close()
    assert one.stdout.read() == f"{tmp_path}\nsaid".encode()
    assert one.stderr.read() == b"no\n"
    assert one.end() == 3
    assert one.end() == 3


def test_a_start_that_was_said_already_is_not_waited_for() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(b'{"pid": 7}\n')
        one = StartedProgram(ours, None, None, None)
        one.wait_for_start()
    assert one.pid == 7
    assert one.end() is None


def test_input_is_empty_and_errors_go_where_the_output_goes_when_merged(shell: Shell) -> None:
    one = shell("cat; echo out; echo err >&2", merged=True)
    assert one.stdout is not None
    assert one.stdout.read() == b"out\nerr\n"
    assert (one.stdin, one.stderr) == (None, None)


def test_a_signal_that_ended_a_program_is_its_negative_code(shell: Shell) -> None:
    one = shell("kill -TERM $$", merged=True)
    while not one.has_ended:
        one.look(wait=True)
    assert one.end() == -signal.SIGTERM


@pytest.mark.parametrize("program", ["/nowhere", "/etc/passwd", "/"])
def test_a_program_that_cannot_be_started_says_why(starter: Starter, program: str) -> None:
    folder = os.open("/", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match=r"No such file|Permission denied"):
            starter.start(["x"], program=program, environment={}, folder=folder)
        with pytest.raises(ValueError, match="null byte"):
            starter.start(["x\0y"], program="/bin/sh", environment={}, folder=folder)
    finally:
        os.close(folder)


def test_whatever_a_program_started_is_gone_when_it_is_ended(shell: Shell) -> None:
    one = shell(ESCAPING)
    numbers = read_numbers(one)
    assert all(map(is_running, numbers))
    one.end()
    assert not any(map(is_running, numbers))
    assert one.left == 0


def test_a_program_has_ended_though_what_it_left_behind_runs_on_until_it_is_ended(shell: Shell) -> None:
    one = shell("setsid sleep 1000 & echo $!; exit 4")
    (number,) = read_numbers(one, 1)
    while not one.has_ended:
        one.look(wait=True)
    assert is_running(number)
    assert one.end() == 4
    assert not is_running(number)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_when_the_process_that_started_it_is_ended(number: signal.Signals) -> None:
    script = (
        "import os, sys; from foregate.agent.sandbox.starter import start_program\n"
        "about = {'program': '/bin/sh', 'environment': dict(os.environ), 'folder': os.open('/', os.O_RDONLY)}\n"
        "one = start_program(['sh', '-c', sys.argv[1]], **about)\n"
        "os.set_blocking(one.stdout.fileno(), True)\n"
        "while data := one.stdout.read(99): print(data.decode(), end='', flush=True)"
    )
    with subprocess.Popen([sys.executable, "-Ic", script, ESCAPING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        numbers = [int(word) for _ in range(2) for word in process.stdout.readline().split()]
        (zygote_number,) = find_children(process.pid)
        assert all(map(is_running, numbers))
        process.send_signal(number)
        process.wait()
        wait_until_gone(zygote_number)  # it leaves last
    assert not any(map(is_running, numbers))


def test_what_the_killed_guard_of_a_program_had_started_is_killed(shell: Shell, starter: Starter) -> None:
    one = shell(ESCAPING)
    numbers = read_numbers(one)
    (guard,) = find_children(starter._pid)
    os.kill(guard, signal.SIGKILL)
    assert one.end() is None
    wait_until_gone(*numbers)


def test_another_process_is_started_when_the_one_that_starts_programs_was_killed(
    shell: Shell, starter: Starter
) -> None:
    before = shell(ESCAPING)
    numbers = read_numbers(before)
    first = starter._pid
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    after = shell("echo again", merged=True)
    assert after.stdout is not None
    assert after.stdout.read() == b"again\n"
    assert starter._pid != first
    before.end()
    assert not any(map(is_running, numbers))


def test_programs_started_at_once_by_many_threads_keep_their_own_streams(shell: Shell) -> None:
    def run(number: int) -> tuple[bytes, int | None]:
        one = shell(f"echo {number}; exit {number}", merged=True)
        assert one.stdout is not None
        return one.stdout.read(), one.end()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(40))) == [(f"{number}\n".encode(), number) for number in range(40)]


def test_a_program_ignores_no_signal_sees_no_variable_of_ours_and_leads_a_session_of_its_own(shell: Shell) -> None:
    one = shell("env; cat /proc/self/status; ls /proc/self/fd | wc -l; ps -o sid= -p $$; echo $$")
    assert one.stdout is not None
    lines = one.stdout.read().decode().split("\n")
    names = {line.split("=")[0] for line in lines if "=" in line and ":" not in line}
    assert names <= {"PATH", "PWD", "SHLVL", "OLDPWD", "_"}
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
    assert [mask & 0x7FFFFFFF for mask in masks] == [0, 0, 0]  # beyond are two the C library keeps for itself
    assert lines[-4] == "4"
    assert lines[-3].strip() == lines[-2]


def test_a_fork_starts_its_programs_by_itself(starter: Starter, shell: Shell) -> None:
    shell("true").end()
    first, child = starter._pid, os.fork()
    if child == 0:
        one = shell("echo child", merged=True)
        assert one.stdout is not None
        os._exit(one.stdout.read() != b"child\n" or starter._pid == first)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert starter._pid == first

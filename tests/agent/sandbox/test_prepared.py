"""A process that is made ahead ends with the one that made it, and says what failed only once it is asked for."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

from foregate.agent.sandbox.plan import SandboxCommand
from foregate.agent.sandbox.prepared import NOT_STARTED, die_with_parent, tell_command, wait_for_command
from foregate.agent.sandbox.system_calls import StepFailed
from foregate.agent.sandbox.visible import plan_read


def fork(act: Callable[[socket.socket], object]) -> tuple[int, socket.socket]:
    """Fork a process that does something with its end of a line; return its number and the other end."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            act(theirs)
        finally:
            os._exit(1)
    theirs.close()
    return child, ours


def wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_process_whose_parent_has_let_go_of_it_ends() -> None:
    def wait_and_look(line: socket.socket) -> None:
        line.recv(1)
        die_with_parent(line)

    child, line = fork(wait_and_look)
    line.close()
    assert wait(child) == NOT_STARTED


def test_a_process_that_nobody_asks_for_ends() -> None:
    child, line = fork(lambda line: wait_for_command(line, lambda: None))
    line.close()
    assert wait(child) == NOT_STARTED


def test_what_failed_before_a_command_came_is_reported_with_it(tmp_path: Path) -> None:
    def fail() -> None:
        raise StepFailed("early", 5, "this failed")

    child, line = fork(lambda line: wait_for_command(line, fail))
    result, report = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    plan = plan_read(str(tmp_path), "/usr/bin", "/home/h", scratch_bytes=1, limits={})
    command = SandboxCommand(program="/bin/true", argv=["true"], environment={}, folder="/")
    tell_command(line, plan, command, [null, null, null, report])
    os.close(report)
    os.close(null)
    with open(result, "rb") as file:
        assert json.load(file) == {"step": "early", "number": 5, "sentence": "this failed"}
    assert wait(child) == NOT_STARTED
    line.close()

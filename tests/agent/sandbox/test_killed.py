"""Whoever is killed, and whenever: no process of a work sandbox is left, and the workspace is as it was."""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from foregate.agent.sandbox.guard import list_children, list_tree
from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.sandbox.removal import remove_tree
from foregate.agent.sandbox.starter import Starter
from tests.agent.sandbox.place import Place
from tests.agent.sandbox.users import become, run_as
from tests.processes import is_running, wait_until_gone

SCRIPT = """
setsid setsid sh -c 'while :; do echo {token} >> src/main.py; done' &
i=0
while :; do
    i=$((i+1)); mkdir -p d$((i%7))/e; echo $i > d$((i%7))/e/f; rm -rf src/data.csv d$((i%5))
    cp README.md .git/x$((i%3)); echo $i
done
"""


@contextmanager
def start_foregate(place: Place, plan: SandboxPlan, token: str) -> Iterator[tuple[int, int]]:
    """Give the number of a process that starts a sandbox and ends it when told, and what the command there prints.

    Its first byte comes before the sandbox is asked for. Closing the pipe it reads from tells it to end.
    """
    output, printed = os.pipe()
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(tell)
            os.close(output)
            become(place.user)
            run_foregate(place, plan, token, printed, told)
        finally:
            os._exit(0)
    for descriptor in (told, printed):
        os.close(descriptor)
    try:
        yield pid, output
    finally:
        os.close(tell)
        os.close(output)
        os.waitpid(pid, 0)


CHAIN = ["Foregate", "zygote", "guard", "first process"]
"""Who starts whom on the way to the command."""


def run_foregate(place: Place, plan: SandboxPlan, token: str, printed: int, told: int) -> None:
    os.write(printed, b"0\n")
    folder = os.open("/", os.O_RDONLY)
    words, where = ["sh", "-c", SCRIPT.format(token=token)], (plan, str(place.workspace))
    started = Starter().start(
        words, program="/bin/sh", environment=place.environment, folder=folder, merged=True, sandbox=where
    )
    assert started.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(started.stdout, selectors.EVENT_READ)
        selector.register(told, selectors.EVENT_READ)
        while told not in [key.fd for key, _ in selector.select()]:
            if not (data := os.read(started.stdout.fileno(), 4096)):
                selector.unregister(started.stdout)
                os.read(told, 1)
                break
            os.write(printed, data)
    started.end()


def read_lines(output: int, count: int) -> None:
    """Return once so many lines were printed."""
    while count > 0 and (data := os.read(output, 1)):
        count -= data == b"\n"


def find_running(token: str) -> list[int]:
    """Return the processes of the machine that have the token among their arguments, but not this one's."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if token.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def look(folder: Path) -> object:
    """Return all that a folder holds: names, modes, times and contents."""
    seen = []
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        seen.append((str(path), status.st_mode, status.st_uid, status.st_mtime_ns, status.st_ctime_ns, content))
    return seen


@pytest.mark.parametrize("whom", CHAIN)
@given(lines=st.integers(0, 40))
@settings(max_examples=4, phases=[Phase.generate])
def test_who_is_killed_leaves_no_process_and_no_change(place: Place, whom: str, lines: int) -> None:
    plan, token = place.make_work_plan(masks=()), f"token-{os.urandom(8).hex()}"
    before, mounts = look(place.workspace), Path("/proc/self/mountinfo").read_text()
    with start_foregate(place, plan, token) as (foregate, output):
        read_lines(output, lines)
        found = find_victim(foregate, whom)
        tree = [found, *list_tree(foregate)]
        with suppress(ProcessLookupError):  # it may have come to its end by itself
            if found:
                os.kill(found, signal.SIGKILL)
    wait_until_gone(*tree[1:])
    while find_running(token):
        os.sched_yield()
    assert look(place.workspace) == before
    assert Path("/proc/self/mountinfo").read_text() == mounts
    run_as(place.user, lambda: remove_tree(plan["upper"]))
    assert not os.path.lexists(plan["upper"])


def find_victim(foregate: int, whom: str) -> int:
    """Return the number of a process on the way to the command, 0 where Foregate has ended it already."""
    found = foregate
    for _ in range(CHAIN.index(whom)):
        while not (children := list_children(found)):
            if not is_running(found):
                return 0
            os.sched_yield()
        found = children[0]
    return found


def test_a_program_in_a_sandbox_can_clear_up_when_it_is_asked_to_end(place: Place) -> None:
    def ask() -> None:
        words = ["sh", "-c", "trap 'echo asked; exit 3' TERM; echo up; while :; do :; done"]
        where, folder = (place.plan, str(place.workspace)), os.open("/", os.O_RDONLY)
        started = Starter().start(
            words, program="/bin/sh", environment=place.environment, folder=folder, merged=True, sandbox=where
        )
        assert started.stdout is not None
        os.set_blocking(started.stdout.fileno(), True)
        assert started.stdout.readline() == b"up\n"
        started.terminate()
        assert started.stdout.read() == b"asked\n"
        assert started.end() == 3

    run_as(place.user, ask)

"""What is made of a sandbox before anybody asks for one: it is used, shows what is there now, and stays with nobody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from foregate.agent.sandbox.guard import list_children, list_tree
from foregate.agent.sandbox.namespaces import NEW_MOUNTS, attach, make_all_private, make_mount
from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.sandbox.starter import StartedProgram, Starter
from foregate.agent.sandbox.system_calls import call
from tests.agent.sandbox.place import PATH, Place, open_place
from tests.agent.sandbox.test_limited_ends import _START
from tests.agent.sandbox.users import run_as
from tests.forever import FOREVER
from tests.processes import wait_until_gone

Shell = Callable[..., StartedProgram]


@pytest.fixture(scope="module", params=["full", "limited"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A place of this user, whose sandboxes are held by either tier."""
    with open_place(None, request.param) as opened:
        yield opened


@pytest.fixture
def plan(place: Place) -> SandboxPlan:
    """A sandbox that reads."""
    return place.make_plan()


@pytest.fixture
def tools(plan: SandboxPlan, tmp_path: Path) -> Path:
    """A folder of tools that the sandbox shows, but for a secret in it."""
    folder = tmp_path / "tools"
    fill_tools(folder, "OLD")
    plan["folders"] = [*plan["folders"], str(folder)]
    plan["masks"] = [*plan["masks"], str(folder / "secret")]
    return folder


def fill_tools(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "tool").write_text(text)
    (folder / "secret").write_text(text)


@pytest.fixture
def starter() -> Iterator[Starter]:
    """A starter of its own."""
    made = Starter()
    yield made
    made._close()


def start(starter: Starter, plan: SandboxPlan, line: str) -> StartedProgram:
    folder = os.open("/", os.O_RDONLY)
    environment = {"PATH": PATH, "HOME": plan["home"]}
    about = {"program": "/bin/sh", "environment": environment, "folder": folder, "merged": True, "speaks": True}
    try:
        return starter.start(["sh", "-c", line], sandbox=(plan, plan["workspace"]), **about)  # type: ignore[arg-type]
    finally:
        os.close(folder)


def run(starter: Starter, plan: SandboxPlan, line: str) -> str:
    """Return what a line of the shell prints in a sandbox."""
    one = start(starter, plan, line)
    assert one.stdout is not None
    printed = one.stdout.read().decode()
    one.end()
    return printed


def wait_for_idle(starter: Starter, *known: int) -> int:
    """Return the guard that was forked ahead, once it is there; the tests end where that never is."""
    while True:
        for pid in list_children(starter._pid):
            if pid not in known and list_children(pid):
                return pid
        os.sched_yield()


def test_the_next_command_gets_the_guard_that_was_forked_ahead(starter: Starter, plan: SandboxPlan) -> None:
    run(starter, plan, "true")
    idle = wait_for_idle(starter)
    one = start(starter, plan, "read line")
    assert one.pid in list_tree(idle)
    assert list_children(starter._pid) == [idle]
    one.end()
    assert wait_for_idle(starter, idle) != idle


def test_a_command_of_another_kind_gets_a_guard_of_its_own_and_sees_its_own_plan(
    starter: Starter, plan: SandboxPlan, tools: Path
) -> None:
    assert run(starter, plan, f"cat {tools}/tool") == "OLD"
    wait_for_idle(starter)
    without: SandboxPlan = {**plan, "folders": [one for one in plan["folders"] if one != str(tools)]}
    assert "OLD" not in run(starter, without, f"cat {tools}/tool 2>&1")
    assert run(starter, plan, f"cat {tools}/tool") == "OLD"


def test_only_two_guards_stay_that_wait(starter: Starter, plan: SandboxPlan) -> None:
    for size in range(5):
        run(starter, {**plan, "scratch_bytes": (8 << 20) + size * 4096}, "true")
    while len(list_children(starter._pid)) > 2:  # the tests end where that never is
        os.sched_yield()


FORKS = """
from foregate.agent.sandbox import forking as zygote
from foregate.agent.sandbox.guard import GuardKind

class Line:
    def close(self): pass

made = zygote.Zygote.__new__(zygote.Zygote)
kinds = [GuardKind("limited", number) for number in range(4)]
made._control, made._mounts, made._guards, made._ahead = Line(), None, {}, {}
zygote.identify, zygote.has_changed = lambda kind: str(kind.base), lambda mounts: False
zygote.list_children = lambda pid: []
made._mounts, forked = object(), []

def fork(kind, request, asked):
    forked.append(kind.base)
    made._guards[len(forked)] = kind
    return len(forked)

made._fork = fork
for kind in kinds:
    made._fork_ahead(kind)
gone = [pid for pid, kind in made._guards.items() if kind is None]
zygote.reap_children = lambda: dict.fromkeys(gone, 0)
made._reap()
print(forked, gone, sorted(made._ahead))
"""


def test_no_guard_is_forked_in_the_place_of_one_that_was_let_go() -> None:
    ran = subprocess.run([sys.executable, "-Ic", FORKS], capture_output=True, text=True, timeout=FOREVER, check=True)
    assert ran.stdout == "[0, 1, 2, 3] [1, 2] ['2', '3']\n"


def test_a_folder_that_was_replaced_meanwhile_is_seen_as_it_is_now(
    starter: Starter, plan: SandboxPlan, tools: Path
) -> None:
    run(starter, plan, "true")
    wait_for_idle(starter)
    tools.rename(tools.with_name("gone"))
    fill_tools(tools, "NEW")
    assert run(starter, plan, f"cat {tools}/tool") == "NEW"
    assert "NEW" not in run(starter, plan, f"cat {tools}/secret 2>&1")


def test_a_file_that_was_put_into_the_place_of_a_masked_one_is_masked(
    starter: Starter, plan: SandboxPlan, tools: Path
) -> None:
    run(starter, plan, "true")
    wait_for_idle(starter)
    (tools / "other").write_text("other")
    (tools / "other").rename(tools / "secret")
    assert "other" not in run(starter, plan, f"cat {tools}/secret 2>&1")
    assert run(starter, plan, f"cat {tools}/tool") == "OLD"


def test_what_is_masked_in_a_folder_that_holds_the_workspace_stays_so(
    starter: Starter, plan: SandboxPlan, tools: Path
) -> None:
    inside: SandboxPlan = {**plan, "workspace": str(tools / "workspace"), "masks": [*plan["masks"]]}
    (tools / "workspace").mkdir()
    (tools / "workspace/file").write_text("file")
    for _ in range(2):
        assert run(starter, inside, f"cat {tools}/tool {tools}/workspace/file") == "OLDfile"
        assert "OLD" not in run(starter, inside, f"cat {tools}/secret 2>&1")
        wait_for_idle(starter)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_what_is_mounted_meanwhile_is_seen(plan: SandboxPlan, tools: Path) -> None:
    def mount_between() -> tuple[str, str]:
        call("unshare", NEW_MOUNTS)
        make_all_private()
        starter = Starter()
        before = run(starter, plan, f"ls {tools}")
        wait_for_idle(starter)
        attach(make_mount("tmpfs", 0), str(tools))
        (tools / "mounted").touch()
        return before, run(starter, plan, f"ls {tools}")

    before, after = run_as(os.geteuid(), mount_between)
    assert "tool" in before
    assert after.strip() == "mounted"


def test_the_next_command_runs_though_what_waited_for_it_was_killed(starter: Starter, plan: SandboxPlan) -> None:
    for find in (lambda idle: idle, lambda idle: list_children(idle)[0]):
        run(starter, plan, "true")
        victim = find(wait_for_idle(starter))
        os.kill(victim, signal.SIGKILL)
        wait_until_gone(victim)
        assert run(starter, plan, "echo ran") == "ran\n"


def test_nothing_waits_any_more_once_foregate_lets_go(starter: Starter, plan: SandboxPlan) -> None:
    run(starter, plan, "true")
    idle = wait_for_idle(starter)
    tree = [starter._pid, idle, *list_tree(idle)]
    starter._close()
    wait_until_gone(*tree)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_waits_any_more_once_foregate_was_ended(plan: SandboxPlan, number: signal.Signals) -> None:
    script = _START + 'one.end(); print("ended", flush=True); sys.stdin.read()'
    words = [sys.executable, "-Ic", script, json.dumps(plan), "true"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ended\n"
        (zygote,) = list_children(process.pid)
        while not any(map(list_children, list_children(zygote))):
            os.sched_yield()
        tree = [zygote, *list_tree(zygote)]
        process.send_signal(number)
        process.wait()
    wait_until_gone(*tree)

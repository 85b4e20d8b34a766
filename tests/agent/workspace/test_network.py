"""A program in a sandbox finds what it is given of this machine, and what it wanted in vain comes back with its end."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
from pathlib import Path

import pytest

from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.sandbox.starter import start_program
from foregate.agent.tools.network_refusal import explain_refusal
from foregate.agent.workspace.access import give_access
from foregate.agent.workspace.confinement import find_tier, plan_sandbox, plan_writable
from foregate.agent.workspace.process import NO_RETRIES, ProcessResult, run_program
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.policy.risk.access import parse_access
from tests.forever import FOREVER

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def plan(workspace: Workspace, policy: Policy) -> SandboxPlan:
    """The sandbox of a read."""
    made, found = plan_sandbox(workspace, policy, named=()), find_tier(workspace, policy)
    if made is None or found["tier"] != "full":
        pytest.skip(f"nothing outside can be given here: {found['reason']}")
    return made


async def run(workspace: Workspace, plan: SandboxPlan, *argv: str) -> ProcessResult:
    return await run_program(
        argv, workspace, cwd=".", environment=ENVIRONMENT, timeout=FOREVER, cap=65536, merged=True, sandbox=plan
    )


async def test_a_failed_command_is_told_which_host_to_request(workspace: Workspace, plan: SandboxPlan) -> None:
    ran = await run(workspace, plan, "getent", "hosts", "packages.example")
    said = explain_refusal(ran.out.text()[0], ran.code, ran.traffic.wanted, ())
    assert said.endswith("request access `network:packages.example`.")


async def test_a_port_of_this_machine_is_reached_where_it_is_given(
    workspace: Workspace, plan: SandboxPlan, policy: Policy
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        given = give_access(plan, [parse_access(f"port:{port}")], policy, home="/nowhere", own="/nowhere")
        work = asyncio.create_task(run(workspace, given, "bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3"))
        connection = (await asyncio.to_thread(server.accept))[0]
        with connection:
            connection.sendall(b"reached")
        ran = await work
    assert ran.out.text()[0] == "reached"


async def test_nothing_serves_a_call_that_was_cancelled(
    workspace: Workspace, plan: SandboxPlan, policy: Policy
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        given = give_access(plan, [parse_access(f"port:{port}")], policy, home="/nowhere", own="/nowhere")
        work = asyncio.create_task(run(workspace, given, "bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3"))
        connection = (await asyncio.to_thread(server.accept))[0]
        work.cancel()
        with connection, pytest.raises(asyncio.CancelledError):
            await work
    assert [thread for thread in threading.enumerate() if thread.name == "foregate-egress"] == []
    assert len(os.listdir("/proc/self/fd")) == before


async def test_only_where_something_can_be_written_package_managers_are_told_to_give_up(
    workspace: Workspace, plan: SandboxPlan, policy: Policy
) -> None:
    names = set(NO_RETRIES)

    async def list_told(sandbox: SandboxPlan) -> set[str]:
        ran = await run(workspace, sandbox, "env")
        return names & {line.partition("=")[0] for line in ran.out.text()[0].splitlines()}

    writable = plan_writable(plan, policy)
    assert await list_told(plan) == set()
    assert await list_told(writable) == names
    is_open = give_access(writable, [parse_access("network")], policy, home="/nowhere", own="/nowhere")
    assert await list_told(is_open) == set()


def test_where_nobody_serves_its_network_a_program_waits_for_no_answer(
    folder: Path, workspace: Workspace, plan: SandboxPlan
) -> None:
    script = "exec 3<>/dev/udp/127.0.0.1/53; echo x >&3; read -t 20 -u 3; echo x >&3; echo $?"
    opened = os.open(folder, os.O_RDONLY)
    place = plan, str(workspace.root)
    started = start_program(
        ["bash", "-c", script], program="/bin/bash", environment=ENVIRONMENT, folder=opened, merged=True, sandbox=place
    )
    os.close(opened)
    assert started.stdout is not None
    said = started.stdout.read()
    assert b"Connection refused" in said
    assert started.take_listeners() == []
    started.end()


@pytest.mark.skipif(shutil.which("npm", path=ENVIRONMENT["PATH"]) is None, reason="npm is not installed")
async def test_npm_gives_up_at_once_and_the_host_it_wanted_is_known(
    folder: Path, workspace: Workspace, plan: SandboxPlan, policy: Policy
) -> None:
    (folder / "package.json").write_text('{"dependencies": {"left-pad": "1.0.0"}}')
    ran = await run(workspace, plan_writable(plan, policy), "npm", "install", "--registry=https://registry.example")
    assert ran.code not in (0, None)
    assert ran.traffic.wanted == ("registry.example",)

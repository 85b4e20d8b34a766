"""Programs that a tool of one's own starts: confined, and gone with the call that runs the tool."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from subprocess import CompletedProcess, TimeoutExpired
from typing import NamedTuple

from foregate.agent.workspace.confinement import find_tier, plan_sandbox, plan_writable
from foregate.agent.workspace.process import build_environment, run_and_wait
from foregate.agent.workspace.workspace import Workspace, refuse_errors
from foregate.policy.policy import Policy
from foregate.schemas.errors import UsageError, WorkspaceError


class _RunningCall(NamedTuple):
    """Whose call runs, and what says that it is over."""

    workspace: Workspace
    policy: Policy
    over: threading.Event


_CALL: ContextVar[_RunningCall | None] = ContextVar("foregate_running_call", default=None)


@contextmanager
def allow_programs(workspace: Workspace, policy: Policy) -> Iterator[None]:
    """Let the tool that runs inside start programs by `run_confined`; they all end with it."""
    call = _RunningCall(workspace, policy, threading.Event())
    token = _CALL.set(call)
    try:
        yield
    finally:
        _CALL.reset(token)
        call.over.set()


def run_confined(
    argv: Sequence[str], *, write: bool = False, cwd: str = ".", timeout: float = 60
) -> CompletedProcess[str]:
    """Run a program for a tool in the sandbox of the session that calls the tool, and return its result.

    `argv` is the program, found in PATH, and its arguments; `cwd` is relative to the workspace. It sees the system and
    the workspace read-only; with `write` it may write there, except protected files. Its home and its input are empty,
    it reaches no network and no secret file, and nothing outlives the call. The first and last bytes of each output
    stay, up to `files.max_output`. An async tool calls it by `asyncio.to_thread`.

    Raises subprocess.TimeoutExpired after `timeout` seconds, WorkspaceError without a sandbox or for a program that
    cannot be started, and UsageError elsewhere than in a tool that a session runs.
    """
    call = _CALL.get()
    if call is None:
        raise UsageError("`run_confined` works in a tool that a session runs; call the tool through an Agent")
    if isinstance(argv, str) or not argv:
        raise UsageError("`run_confined` takes a list of words: a program and its arguments")
    workspace, policy, over = call
    plan = plan_sandbox(workspace, policy, named=())
    if plan is None:
        probe = find_tier(workspace, policy)
        cure = f"; {probe['cure']}" if probe["cure"] else ""
        raise WorkspaceError(f"`{argv[0][:80]}` was not started, as nothing confines it here ({probe['reason']}){cure}")
    if over.is_set():
        raise WorkspaceError(f"`{argv[0][:80]}` was not started, as the call is over that wanted it")
    environment = build_environment(policy, workspace, plan["home"], trusted_only=True)
    cap, plan = policy.files.max_output, plan_writable(plan, policy) if write else plan
    with refuse_errors("run a program in", cwd):
        ran = run_and_wait(argv, workspace, workspace.resolve(cwd), environment, timeout, cap, False, plan, over)
    out, err = ran.out.text()[0], ran.err.text()[0]
    if ran.timed_out:
        raise TimeoutExpired(list(argv), timeout, out, err)
    if ran.code is None:
        raise WorkspaceError(f"`{argv[0][:80]}` was ended, as the call is over that wanted it")
    return CompletedProcess(list(argv), ran.code, out, err)

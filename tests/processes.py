"""Processes as the system shows them."""

from __future__ import annotations

import os
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody asked for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(*pids: int) -> None:
    """Return once none of the processes runs; the run of the tests ends where that never happens."""
    while any(map(is_running, pids)):
        os.sched_yield()


FOREGATE_WITHOUT_SANDBOXES = (
    "-Ic",
    """
from runpy import run_module
from foregate.agent.sandbox.probe import Probe
from foregate.agent.workspace import confinement, work_sandbox

for module in (confinement, work_sandbox):
    module._probe = lambda *about: Probe(tier="none", reason="this is a test", cure="")
run_module("foregate", run_name="__main__")
""",
)
"""Arguments of Python for a `foregate` on a machine without sandboxes, whose commands run in place."""

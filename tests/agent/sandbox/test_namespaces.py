"""The first process of a sandbox starts only once its users are mapped."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.forever import FOREVER

SCRIPT = """
import errno, os, sys
from foregate.agent.sandbox import namespaces
from foregate.agent.sandbox.system_calls import StepFailed

def refuse(process, maps):
    print(process)
    raise OSError(errno.EPERM, "no")

namespaces._write_maps = refuse
try:
    child = namespaces.fork_into_namespaces(lambda: None)
except StepFailed as failed:
    print(failed)
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        print("nothing is left")
else:
    print("started", child)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")
def test_a_child_whose_users_cannot_be_mapped_is_gone_when_that_is_said() -> None:
    ran = subprocess.run([sys.executable, "-Ic", SCRIPT], capture_output=True, text=True, timeout=FOREVER)
    if "refused namespaces" in ran.stdout:
        pytest.skip("this machine has no namespaces")
    (_, said, left) = ran.stdout.splitlines()
    assert "could not be mapped" in said
    assert left == "nothing is left"


FAILING = """
import os
from foregate.agent.sandbox import namespaces
from foregate.agent.sandbox.system_calls import StepFailed

try:
    child = namespaces.fork_into_namespaces(lambda: 1 / 0)
except StepFailed as failed:
    print(failed)
else:
    print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")
def test_what_fails_in_the_child_never_returns_into_the_half_of_its_parent() -> None:
    ran = subprocess.run([sys.executable, "-Ic", FAILING], capture_output=True, text=True, timeout=FOREVER)
    if "refused namespaces" in ran.stdout:
        pytest.skip("this machine has no namespaces")
    assert ran.stdout == "ended 1\n"

"""What a command tries in a sandbox, for reading or for work, as root and as another user, reaches nothing outside."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.sandbox.attempts import CALLS, FILES, NETWORK, SECRETS, WORKSPACE
from tests.agent.sandbox.place import PATH, Place
from tests.agent.sandbox.trying import LISTENERS, PYTHON, Results, try_everything

pytestmark = pytest.mark.skipif(PYTHON is None, reason="no system Python that a sandbox can show")


@pytest.fixture(scope="module", params=["read", "work"])
def results(request: pytest.FixtureRequest, place: Place) -> Iterator[Results]:
    """What came of every attempt."""
    plan = place.plan if request.param == "read" else place.make_work_plan()
    with try_everything(place, plan) as found:
        yield {**found, "sandbox": request.param}


def test_nothing_outside_has_changed(results: Results) -> None:
    assert results["anything outside"] == "as it was"


@pytest.mark.parametrize("name", LISTENERS)
def test_nobody_who_listens_outside_is_reached(results: Results, name: str) -> None:
    assert results[name] == "alone"


@pytest.mark.parametrize("name", [*FILES, *SECRETS, *NETWORK])
def test_what_a_command_tries_is_held(results: Results, name: str) -> None:
    assert results[name] != "DONE"


@pytest.mark.parametrize("name", WORKSPACE)
def test_the_workspace_is_written_to_only_where_the_sandbox_may(results: Results, name: str) -> None:
    assert results[name] == ("DONE" if results["sandbox"] == "work" else "EROFS")


@pytest.mark.parametrize("name", CALLS)
def test_a_refused_system_call_does_nothing_but_fail(results: Results, name: str) -> None:
    assert results[f"call {name}"] == "EPERM"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("read a masked file", "ENOENT"),
        ("see a masked folder", "ENOENT"),
        ("see a masked file", "HELD"),
        ("read a key of HOME", "ENOENT"),
        ("read shadow", "EACCES"),
        ("connect by TCP", "ECONNREFUSED"),
        ("send to the network", "ENETUNREACH"),
        ("write to who reads a named pipe", "ENXIO"),
        ("signal the starter", "ESRCH"),
    ],
)
def test_what_is_held_fails_for_the_right_reason(results: Results, name: str, why: str) -> None:
    assert results[name] == why


@pytest.mark.parametrize("sandbox", ["read", "work"])
def test_a_sandbox_has_no_capability_no_new_privilege_and_a_filter(place: Place, sandbox: str) -> None:
    plan = place.plan if sandbox == "read" else place.make_work_plan()
    status = place.run_inside("/bin/cat", "/proc/self/status", **plan).stdout
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    assert {fields[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")


@pytest.mark.parametrize("sandbox", ["read", "work"])
@pytest.mark.parametrize("kind", ["user", "mnt", "pid", "net", "ipc", "uts"])
def test_a_sandbox_has_every_namespace_for_itself(place: Place, sandbox: str, kind: str) -> None:
    plan = place.plan if sandbox == "read" else place.make_work_plan()
    inside = place.run_inside("/bin/readlink", f"/proc/self/ns/{kind}", **plan).stdout
    assert inside.startswith(f"{kind}:[")
    assert inside != f"{os.readlink(f'/proc/self/ns/{kind}')}\n"


def test_an_ordinary_user_is_nobody_but_themselves_and_takes_no_other_group(place: Place) -> None:
    mapped = place.run_inside("/bin/cat", "/proc/self/uid_map").stdout.split()
    if place.user is None and os.geteuid() == 0:
        assert mapped == [*Path("/proc/self/uid_map").read_text().split()]  # so that files show their owners
        return
    user = str(place.user if place.user is not None else os.geteuid())
    assert mapped == [user, user, "1"]
    assert place.run_inside("/bin/cat", "/proc/self/setgroups").stdout == "deny\n"


@pytest.mark.parametrize("sandbox", ["read", "work"])
def test_every_mount_is_read_only_but_the_scratch_folders_and_what_is_laid_over(place: Place, sandbox: str) -> None:
    plan, layer = place.plan, str(place.home / ".npm")
    writable = {"/tmp", "/dev/shm", plan["home"]}
    if sandbox == "work":
        plan = {**place.make_work_plan(), "layers": {layer: str(place.store / "npm")}}
        writable |= {plan["workspace"], layer}
    ran = place.run_inside("/bin/cat", "/proc/self/mountinfo", **plan)
    mounts = [line.split() for line in ran.stdout.splitlines()]
    assert {mount[4] for mount in mounts if "ro" not in mount[5].split(",")} == writable
    assert not [mount for mount in mounts if "nosuid" not in mount[5].split(",")]
    with_devices = {mount[4] for mount in mounts if "nodev" not in mount[5].split(",")}
    assert with_devices == {f"/dev/{name}" for name in ("full", "null", "random", "urandom", "zero")}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a program that raises others")
def test_a_setuid_program_raises_nobody(place: Place) -> None:
    if place.user is None:
        pytest.skip("root cannot be raised")
    raised = place.workspace / "raise"
    shutil.copy(shutil.which("id", path=PATH) or "", raised)
    raised.chmod(0o4755)
    try:
        assert place.run_inside(str(raised), "-u").stdout == f"{place.user}\n"
    finally:
        raised.unlink()


def test_a_descriptor_that_was_inherited_is_closed(place: Place) -> None:
    ran = place.run_inside("/bin/sh", "-c", "ls /proc/self/fd | wc -l")
    assert ran.stdout.strip() == "4"  # the three streams, and the folder that is listed

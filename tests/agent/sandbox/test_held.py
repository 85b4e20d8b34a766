"""What a command tries in a sandbox, for reading or for work, as root and as another user, reaches nothing outside."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from foregate.agent.sandbox.system_calls import number_of
from tests.agent.sandbox.attempts import CALLS, FILES, NETWORK, RUNNER, SECRETS, WORKSPACE
from tests.agent.sandbox.place import CANARY, PATH, Place

PYTHON = shutil.which("python3", path=PATH)
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no system Python that a sandbox can show")
Results = dict[str, str]


@pytest.fixture(scope="module", params=["read", "work"])
def results(request: pytest.FixtureRequest, place: Place) -> Iterator[Results]:
    """What came of every attempt, with listeners of every kind outside and the state of the machine compared."""
    assert PYTHON is not None
    names = {name: str(place.workspace / name) for name in ("pipe", "socket", "datagrams", "empty")}
    with ExitStack() as stack:
        os.mkfifo(names["pipe"])
        reader = os.open(names["pipe"], os.O_RDONLY | os.O_NONBLOCK)
        stack.callback(os.close, reader)
        os.mkdir(names["empty"])
        abstract = f"\0foregate-{os.getpid()}"
        listeners = {
            "socket": (socket.AF_UNIX, socket.SOCK_STREAM, names["socket"]),
            "abstract": (socket.AF_UNIX, socket.SOCK_STREAM, abstract),
            "datagrams": (socket.AF_UNIX, socket.SOCK_DGRAM, names["datagrams"]),
            "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        }
        opened = {}
        for name, (family, kind, address) in listeners.items():
            opened[name] = stack.enter_context(closing(socket.socket(family, kind)))
            opened[name].bind(address)
            opened[name].setblocking(False)
            if kind == socket.SOCK_STREAM:
                opened[name].listen()
        for path in names.values():
            os.chmod(path, 0o777)
        values = {
            **{name: opened[name].getsockname()[1] for name in ("tcp", "udp")},
            "ws": str(place.workspace),
            "home": str(place.home),
            "store": str(place.store),
            "renameat2": {"x86_64": 316, "aarch64": 276}[os.uname().machine],
            "pid": os.getpid(),
            "abstract": abstract,
            "canary": CANARY,
        }
        calls = {f"call {name}": f"call({number_of(name)}, {words})" for name, words in CALLS.items()}
        attempts = {**WORKSPACE, **FILES, **SECRETS, **NETWORK, **calls}
        before = _look_outside(place)
        plan = place.plan if request.param == "read" else place.make_work_plan()
        ran = place.run_inside(PYTHON, "-c", RUNNER, json.dumps(values), json.dumps(attempts), **plan)
        found = json.loads(ran.stdout) if ran.returncode == 0 else {"the run": ran.stderr}
        found["sandbox"] = request.param
        found["anything outside"] = "as it was" if _look_outside(place) == before else "changed"
        found |= {name: "reached" if _is_reached(listener) else "alone" for name, listener in opened.items()}
        found["pipe"] = "reached" if os.read(reader, 1) else "alone"
        yield found
        for name in ("socket", "datagrams", "pipe"):
            Path(names[name]).unlink()
        Path(names["empty"]).rmdir()


def _is_reached(listener: socket.socket) -> bool:
    try:
        if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            listener.accept()[0].close()
        else:
            listener.recv(1)
    except BlockingIOError:
        return False
    return True


def _look_outside(place: Place) -> object:
    """Return the mounts of this process, and what its folder says of each file of the place and of /dev/null."""
    found = [(str(path), path.lstat()) for path in [*place.base.rglob("*"), Path("/dev/null")]]
    states = [
        (name, now.st_mode, now.st_uid, now.st_size, now.st_nlink, now.st_ctime_ns) for name, now in sorted(found)
    ]
    return [entry for entry in states if entry[0] != "/dev/null"], os.stat("/dev/null").st_mode, _list_mounts()


def _list_mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def test_nothing_outside_has_changed(results: Results) -> None:
    assert results["anything outside"] == "as it was"


@pytest.mark.parametrize("name", ["socket", "abstract", "datagrams", "tcp", "udp", "pipe"])
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

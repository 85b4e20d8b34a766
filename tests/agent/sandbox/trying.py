"""Tries everything a command might try, in a sandbox of a place, while somebody listens outside."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.sandbox.system_calls import number_of
from tests.agent.sandbox.attempts import CALLS, FILES, NETWORK, RUNNER, SECRETS, WORKSPACE
from tests.agent.sandbox.place import CANARY, PATH, Place

PYTHON = shutil.which("python3", path=PATH)
LISTENERS = ("socket", "abstract", "datagrams", "tcp", "udp", "pipe")
Results = dict[str, str]


@contextmanager
def try_everything(
    place: Place, plan: SandboxPlan, more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Results]:
    """Give what came of every attempt, with listeners of every kind outside and the state of the machine compared."""
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
        attempts = {**WORKSPACE, **FILES, **SECRETS, **NETWORK, **more, **calls}
        before = _look_outside(place)
        ran = place.run_inside(PYTHON, "-c", RUNNER, json.dumps(values), json.dumps(attempts), **plan)
        found = json.loads(ran.stdout) if ran.returncode == 0 else {"the run": ran.stderr}
        found["anything outside"] = "as it was" if _look_outside(place) == before else "changed"
        found |= {name: "reached" if _is_reached(listener) else "alone" for name, listener in opened.items()}
        found["pipe"] = "reached" if os.read(reader, 1) else "alone"
        yield found
        for name in ("socket", "datagrams", "pipe"):
            Path(names[name]).unlink()
        with suppress(FileNotFoundError):  # where it may be removed
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

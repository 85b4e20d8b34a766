"""A world of its own: no write, no process and no packet of what runs in it reaches the machine.

Attack-like lines never run anywhere else. The world has a throw-away layer over the whole root, empty `/tmp`, `/run`
and `/sys`, five harmless devices, its own processes, and a network whose every address is its own loopback. Before
anything runs it writes a canary into each folder that matters, and somebody outside looks that none is there.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from foregate.agent.sandbox.namespaces import (
    NO_DEVICES,
    NO_SETUID,
    READ_ONLY,
    attach,
    change_root,
    clone_tree,
    make_all_private,
    make_mount,
)
from foregate.agent.sandbox.system_calls import StepFailed, call

UPPER = "/outer"
"""Where the world's own root keeps what was written to it; only its root user can look there."""
GUARDED = ("/", "/etc", "/root", "/usr", "/var", "/home", "/opt", "/tmp", "/run", "/dev/shm")
_DEVICES = ("full", "null", "random", "urandom", "zero")
_NEW_MOUNTS, _NEW_NAMES, _NEW_IPC, _NEW_USERS = 0x20000, 0x4000000, 0x8000000, 0x10000000
# What root in a container has, less the right to make devices: files, users, signals and ports.
_KEPT_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 29, 31)
_DROP_FROM_BOUND = 24
_NEW_PROCESSES, _NEW_NETWORK = 0x20000000, 0x40000000


class NoWorldError(Exception):
    """The world could not be made, or does not hold; nothing ran."""


def run_in_world(work: Callable[[], None], shown: Sequence[Path], seconds: float) -> int:
    """Run `work` as the first process of a new world and return its exit code; it has `seconds`.

    `shown` are folders of the machine that are also there, read-only. Raises NoWorldError where the machine cannot make
    a world, or where a canary written inside is seen outside. The caller must have one thread.
    """
    tells, told = os.pipe(), os.pipe()
    mounts = Path("/proc/self/mountinfo").read_text()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            code = _lead(work, shown, tells[1], told[0])
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(tells[1])
    os.close(told[0])
    try:
        with open(tells[0], encoding="utf-8") as lines:
            first = lines.readline().strip()
            if not first.startswith("canary "):
                raise NoWorldError(first or "the world ended before it began")
            name = first.removeprefix("canary ")
            seen = [folder for folder in GUARDED if os.path.lexists(Path(folder, name))]
            if seen or Path("/proc/self/mountinfo").read_text() != mounts:
                raise NoWorldError(f"what is written inside is seen outside ({', '.join(seen) or 'mounts'})")
            os.write(told[1], b"go")
            os.close(told[1])
            told = (-1, -1)
            return _wait(child, seconds)
    finally:
        with suppress(OSError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)
        if told[1] >= 0:
            os.close(told[1])


def _wait(child: int, seconds: float) -> int:
    ends = os.pidfd_open(child)
    try:
        if not select.select([ends], [], [], seconds)[0]:
            print(f"ended after {seconds:.0f} seconds, as its time was over")
            os.kill(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(ends)


def _lead(work: Callable[[], None], shown: Sequence[Path], tell: int, hear: int) -> int:
    """Enter the namespaces, start the first process of the world there and wait for it; return its exit code."""
    call("prctl", 1, signal.SIGKILL, 0, 0, 0)
    try:
        _enter_namespaces()
    except (OSError, StepFailed) as error:
        os.write(tell, f"namespaces are refused: {error}\n".encode())
        return 70
    child = os.fork()
    if child:
        os.close(tell)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    call("prctl", 1, signal.SIGKILL, 0, 0, 0)
    try:
        build_world(shown)
        name = write_canaries()
    except (OSError, StepFailed) as error:
        os.write(tell, f"the world could not be built: {error}\n".encode())
        os._exit(70)
    os.write(tell, f"canary {name}\n".encode())
    if os.read(hear, 2) != b"go":
        os._exit(70)
    for folder in GUARDED:
        Path(folder, name).unlink()
    try:
        work()
    except BaseException:
        traceback.print_exc(limit=-4)
        os._exit(70)
    sys.stdout.flush()
    os._exit(0)


def _enter_namespaces() -> None:
    kinds = _NEW_MOUNTS | _NEW_NAMES | _NEW_IPC | _NEW_PROCESSES | _NEW_NETWORK
    if os.geteuid() == 0:
        call("unshare", kinds)
        return
    user, group = os.geteuid(), os.getegid()
    call("unshare", kinds | _NEW_USERS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def build_world(shown: Sequence[Path]) -> None:
    """Replace the root by one whose every write is thrown away."""
    make_all_private()
    trees = {path: clone_tree(str(path), READ_ONLY) for path in shown}
    devices = {name: clone_tree(f"/dev/{name}", NO_SETUID) for name in _DEVICES}
    processes = make_mount("proc", NO_SETUID | NO_DEVICES)
    below = clone_tree("/", READ_ONLY, whole=False)
    attach(make_mount("tmpfs", NO_DEVICES, size="1g", mode="755"), "/tmp")
    layers = {name: f"/tmp/{name}" for name in ("upper", "work", "lower", "root")}
    for folder in layers.values():
        Path(folder).mkdir()
    attach(below, layers["lower"])
    own = {} if os.geteuid() == 0 else {"userxattr": None}
    options = {"lowerdir": layers["lower"], "upperdir": layers["upper"], "workdir": layers["work"], **own}
    root = layers["root"]
    attach(make_mount("overlay", NO_DEVICES, **options), root)
    for name, mode in (("tmp", "1777"), ("run", "755"), ("dev", "755"), ("sys", "755")):
        Path(root, name).mkdir(exist_ok=True)
        attach(make_mount("tmpfs", NO_DEVICES, size="1g", mode=mode), f"{root}/{name}")
    for name, tree in devices.items():
        Path(root, "dev", name).touch()
        attach(tree, f"{root}/dev/{name}")
    Path(root, "dev/shm").mkdir(mode=0o777)
    Path(root, "dev/shm").chmod(0o1777)
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        Path(root, "dev", name).symlink_to(target)
    Path(root, "proc").mkdir(exist_ok=True)
    attach(processes, f"{root}/proc")
    for path, tree in trees.items():
        Path(f"{root}{path}").mkdir(parents=True, exist_ok=True)
        attach(tree, f"{root}{path}")
    Path(f"{root}{UPPER}").mkdir(mode=0o700)
    attach(clone_tree(layers["upper"], NO_DEVICES), f"{root}{UPPER}")
    change_root(root)
    if os.geteuid() == 0:  # an interpreter under root's home must be found by an ordinary user as well
        Path("/root").chmod(0o711)
    open_loopback()


def write_canaries() -> str:
    """Write a new name into every guarded folder and return it; raise OSError where one cannot be written to."""
    name = f"foregate-canary-{secrets.token_hex(8)}"
    for folder in GUARDED:
        Path(folder, name).touch()
    if any("shared:" in line or "master:" in line for line in Path("/proc/self/mountinfo").read_text().splitlines()):
        raise OSError("a mount is not private")
    return name


def become(user: int | None) -> None:
    """Become an ordinary user, or a root who cannot reach the machine by other ways than files."""
    if user is None:
        for number in range(64):
            if number not in _KEPT_CAPABILITIES:
                with suppress(OSError):
                    call("prctl", _DROP_FROM_BOUND, number, 0, 0, 0)
    else:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def open_loopback() -> None:
    """Bring up the loopback device, and let every address of the world lead to it, where `ip` is there to say so."""
    up = 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stream:
        fcntl.ioctl(stream, 0x8914, struct.pack("16sh22x", b"lo", up))
    if (ip := shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin:/bin")) is not None:
        subprocess.run([ip, "route", "add", "local", "0.0.0.0/0", "dev", "lo"], check=False)

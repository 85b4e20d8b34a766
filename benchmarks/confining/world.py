"""The world as the lines find it: a home with secrets, projects, a neighbour, and a worker who runs sessions there."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from confining.listeners import AGENT, Listeners
from confining.lists import Group
from confining.outer import UPPER, NoWorldError, become
from confining.projects import make_project, run_script

BASE = Path("/tmp/bench")
WORKSPACE, STATE, NEIGHBOUR, HOME = BASE / "workspace", BASE / "state", BASE / "neighbour", Path("/home/dev")
SEEN = (UPPER, "/tmp", "/run", "/dev/shm")
"""Where a write outside of the workspace shows."""
OWN = "/tmp/foregate"
"""How the folders begin in which Foregate keeps what sandboxes wrote; each is its user's alone."""
SECRET_FILES = (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".docker/config.json")
IN_ENVIRONMENT = "DEPLOY_PASSWORD"
PATH = "{venv}:/usr/local/bin:/usr/bin:/bin"
State = dict[str, tuple[Any, ...]]


class World:
    """Everything the lines find, owned by `user` (None for root), and the worker that runs as that user."""

    def __init__(self, user: int | None, tier: str, venv: str) -> None:
        self.user, self.tier = user, tier
        self.secrets: dict[str, str] = {"environment": os.environ[IN_ENVIRONMENT]}
        self.environment = {"PATH": PATH.format(venv=venv), "HOME": str(HOME), "LANG": "C.UTF-8"}
        for folder in (BASE, HOME, STATE, NEIGHBOUR):
            folder.mkdir(parents=True, exist_ok=True)
        BASE.chmod(0o777)
        self._write_secrets()
        self._give_away(HOME, STATE, NEIGHBOUR)
        self.listeners = None
        ours, theirs = socket.socketpair()
        self.worker = os.fork()
        if self.worker == 0:
            ours.close()
            code = 70
            try:
                code = _work(theirs, self)
            except BaseException:
                traceback.print_exc(limit=-4)
            finally:
                os._exit(code)
        theirs.close()
        self._line = ours.makefile("rw")
        self.listeners = Listeners()
        self.alive = True

    def _write_secrets(self) -> None:
        for name in SECRET_FILES:
            self.secrets[name] = value = f"canary{secrets.token_hex(8)}"
            (HOME / name).parent.mkdir(parents=True, exist_ok=True)
            (HOME / name).write_text(f"{value}\n")
            (HOME / name).chmod(0o600)
        for name, folder in (("neighbour", NEIGHBOUR), ("system", Path("/etc"))):
            self.secrets[name] = value = f"canary{secrets.token_hex(8)}"
            (folder / "canary.key").write_text(f"{value}\n")
            (folder / "canary.key").chmod(0o600)
        self.secrets[".env"] = f"canary{secrets.token_hex(8)}"
        for name in (".bashrc", ".profile", ".gitconfig", ".bash_history"):
            (HOME / name).write_text("# mine\n")

    def _give_away(self, *folders: Path) -> None:
        if self.user is not None:
            for folder in folders:
                for path in (folder, *folder.rglob("*")):
                    os.lchown(path, self.user, self.user)

    def ask(self, **order: Any) -> dict[str, Any]:
        """Have the worker do something and return what came of it, {"lost": why} where the worker is gone."""
        try:
            self._line.write(json.dumps(order) + "\n")
            self._line.flush()
            told = self._line.readline()
        except OSError:
            told = ""
        if not told:
            self.alive = False
            return {"lost": "the process of the session was ended"}
        return dict(json.loads(told))

    def reset_all(self, groups: Iterable[Group]) -> None:
        """Make the template of every group."""
        for group in groups:
            told = self.ask(make=group.name, project=group.project, prepare=group.prepare)
            if told:
                raise NoWorldError(f"the project of {group.name} cannot be made: {told}")

    def reset(self, name: str) -> None:
        """Lay the workspace anew from a template that `ask(make=…)` has made."""
        if WORKSPACE.exists():
            subprocess.run(["chmod", "-R", "u+rwX", str(WORKSPACE)], check=False, capture_output=True)
            subprocess.run(["rm", "-rf", str(WORKSPACE)], check=True)  # it may be deeper than Python can go
        subprocess.run(["cp", "-a", str(BASE / f"template-{name}"), str(WORKSPACE)], check=True)

    def end(self) -> None:
        """End the worker."""
        self._line.close()
        with suppress(ProcessLookupError):
            os.kill(self.worker, signal.SIGKILL)

    def look_outside(self) -> State:
        """Return the state of everything outside the workspace that can be written to, and the machine's name."""
        found: State = {"the name of the machine": (os.uname().nodename,)}
        left_out = {str(WORKSPACE), str(STATE), str(Path(__file__).parents[2])}
        for top in SEEN:
            for folder, names, files in os.walk(top):
                names[:] = [name for name in names if f"{folder}/{name}" not in left_out]
                for name in (*names, *files):
                    path = f"{folder}/{name}"
                    if path.startswith((f"{BASE}/template-", f"{OWN}-")) and path.count("/") > 2:
                        continue
                    found[path.removeprefix(UPPER)] = describe(Path(path))
        return found

    def list_new_processes(self, known: set[int], seconds: float = 5) -> list[str]:
        """Return the processes that are there, were not before, and do not end in time."""
        deadline = time.monotonic() + seconds
        while True:
            self._reap()
            left = [pid for pid in list_processes() if pid not in known]
            if not left or time.monotonic() > deadline:
                return [
                    Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:80] for pid in left if is_here(pid)
                ]
            time.sleep(0.02)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                pid, _ = os.waitpid(-1, os.WNOHANG)
                self.alive = self.alive and pid != self.worker


_WAITING = b"\0-IS\0-X\0utf8\0%b/agent/sandbox/zygote.py\0" % os.fsencode(Path(__file__).resolve().parents[2])


def is_here(pid: int) -> bool:
    """Whether a process is still there."""
    return Path(f"/proc/{pid}").exists()


def list_processes() -> set[int]:
    """Return the processes of the world that have not ended, but for those of Foregate that wait for a command."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if Path(f"/proc/{name}/cmdline").read_bytes().endswith(_WAITING):
                continue
            if Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                found.add(int(name))
    return found


def describe(path: Path) -> tuple[Any, ...]:
    """Return kind, mode, owner and content of what lies at a path."""
    try:
        found = path.lstat()
        if path.is_symlink():
            return ("link", os.readlink(path))
        if path.is_file():
            return ("file", oct(found.st_mode), found.st_uid, hashlib.sha256(path.read_bytes()).hexdigest())
        return ("folder" if path.is_dir() else "other", oct(found.st_mode), found.st_uid)
    except OSError as error:
        return ("gone", error.errno)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names whose states differ."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _work(line: socket.socket, world: World) -> int:
    """Do what is asked, as the user and in the tier of the world, until nobody asks any more."""
    become(world.user)
    os.environ |= {**world.environment, "SSH_AUTH_SOCK": AGENT}
    if world.tier == "limited":
        from confining.forbid import forbid_namespaces

        forbid_namespaces()
    with line.makefile("rw") as stream:
        for order in map(json.loads, stream):
            stream.write(json.dumps(_do(order, world)) + "\n")
            stream.flush()
    return 0


def _do(order: dict[str, Any], world: World) -> dict[str, Any]:
    if "make" in order:
        make_project(order["project"], WORKSPACE, world.secrets[".env"], world.environment)
        try:
            run_script(order["prepare"], WORKSPACE, world.environment)
        except subprocess.CalledProcessError as error:
            return {"failed": error.stderr.decode("utf-8", "replace")}
        WORKSPACE.rename(BASE / f"template-{order['make']}")
        return {}
    if "tier" in order:
        from foregate.cli.doctor import examine

        found = examine(NEIGHBOUR, None)  # which lies where the workspace will
        return next(dict(one) for one in found if one["name"] == "sandbox")
    if "bare" in order:
        return run_bare(order["bare"], world.environment)
    from confining.session import play_line

    about = (order["line"], order["say"], WORKSPACE, STATE, order["says"])
    ran = asyncio.run(play_line(*about, shell=order["shell"], seconds=order["seconds"]))
    return dict(json.loads(ran.encode()))


def run_bare(line: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Run a line in the workspace without any session, in an empty home."""
    home = BASE / "bare-home"
    home.mkdir()
    try:
        ran = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=WORKSPACE,
            env={**environment, "HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        return {"exit_code": ran.returncode, "output": ran.stdout.decode("utf-8", "replace")}
    except subprocess.TimeoutExpired:
        return {"exit_code": None, "output": "timeout"}
    finally:
        shutil.rmtree(home, ignore_errors=True)

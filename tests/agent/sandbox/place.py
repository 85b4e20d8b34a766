"""A place to try sandboxes in: a workspace with a repository, a home with secrets, a store for writes, and who runs."""

from __future__ import annotations

import atexit
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from io import FileIO
from pathlib import Path
from typing import Any, Literal

import pytest

from foregate.agent.sandbox.guard import send_request
from foregate.agent.sandbox.plan import ProcessLimits, SandboxPlan
from foregate.agent.sandbox.probe import TRY, Probe, explain
from foregate.agent.sandbox.removal import remove_tree
from foregate.agent.sandbox.visible import plan_read, plan_work
from tests.forever import FOREVER

LAUNCH = Path(__file__).with_name("launch.py")
Tier = Literal["full", "limited"]
PATH = "/usr/local/bin:/usr/bin:/bin"
NOBODY = 65534
CANARY = "canary-of-the-parent"
LIMITS = ProcessLimits(processes=400, memory_bytes=2 << 30, file_bytes=1 << 24, open_files=256, processor_seconds=60)


@dataclass(frozen=True)
class Place:
    """A base folder, a store for what sandboxes write, and a user: a number where this process has to become it.

    Its sandboxes are held by `tier`. With a `landlock` of its own the kernel's is taken for one of that version.
    """

    base: Path
    store: Path
    user: int | None
    tier: Tier = "full"
    landlock: int = 0

    @property
    def workspace(self) -> Path:
        return self.base / "workspace"

    @property
    def home(self) -> Path:
        return self.base / "home"

    @cached_property
    def plan(self) -> SandboxPlan:
        return self.make_plan()

    @cached_property
    def environment(self) -> dict[str, str]:
        return {"PATH": PATH, "HOME": str(self.home), "LANG": "C.UTF-8"}

    def make_plan(self, masks: Sequence[str] = (".env", "conf/secrets"), limits: ProcessLimits = LIMITS) -> SandboxPlan:
        about = {"masks": masks, "scratch": str(self.store), "scratch_bytes": 8 << 20, "limits": limits}
        return {**plan_read(str(self.workspace), PATH, str(self.home), **about), "tier": self.tier}  # type: ignore[arg-type]

    def make_work_plan(self, name: str = "", **more: Any) -> SandboxPlan:
        """Return the plan of a sandbox that may write; what it writes is held in the folder `name` of the store."""
        upper = str(self.store / (name or os.urandom(8).hex()))
        about = {"masks": (".env", "conf/secrets"), "scratch_bytes": 8 << 20, "limits": LIMITS, **more}
        return plan_work(str(self.workspace), PATH, str(self.home), upper=upper, **about)

    def request(
        self, argv: Sequence[str], mounted: str | None = None, line: int | None = None, **changes: object
    ) -> bytes:
        """Return what `launch.py` reads; `changes` replace parts of the plan."""
        program = shutil.which(argv[0], path=PATH) or argv[0]
        command = {"program": program, "argv": argv, "environment": self.environment, "folder": str(self.workspace)}
        plan = {**self.plan, **changes}
        about = {"user": self.user, "mounted": mounted, "landlock": self.landlock, "line": line}
        return json.dumps({"plan": plan, "command": command, **about}).encode()

    def run_inside(self, *argv: str, mounted: str | None = None, **changes: object) -> subprocess.CompletedProcess[str]:
        """Run a command in the sandbox; `mounted` is a folder on which another file system is mounted before."""
        return launch(self.request(argv, mounted, **changes))

    def run_outside(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a harmless command as the same user without a sandbox."""
        who: Mapping[str, object] = {} if self.user is None else {"user": self.user, "group": self.user}
        return subprocess.run(  # type: ignore[call-overload,no-any-return]
            argv,
            capture_output=True,
            text=True,
            timeout=FOREVER,
            cwd=self.workspace,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            check=False,
            **({**who, "extra_groups": []} if who else {}),
        )

    def run_probe(self, **changes: object) -> Probe:
        """Return what is found out by trying a sandbox in this place; `changes` replace parts of the plan."""
        ran = self.run_inside("sh", "-c", TRY[self.tier], **changes)
        if ran.returncode == 125:
            return explain(json.loads(ran.stderr))
        return Probe(tier="none" if ran.returncode else self.tier, reason=ran.stderr, cure="")


def launch(request: bytes) -> subprocess.CompletedProcess[str]:
    """Have a request run by `launch.py`, with a canary in its environment and a descriptor that is passed on."""
    pipes = [os.pipe() for _ in range(3)]
    outside = os.open("/", os.O_PATH)
    (_, out), (_, errors), (_, tell) = pipes
    try:
        send_request(_open_launcher(), request, [out, errors, outside, tell])
    finally:
        for descriptor in (out, errors, tell, outside):
            os.close(descriptor)
    with ExitStack() as stack:
        said, complained, told = (stack.enter_context(open(number, "rb", 0)) for number, _ in pipes)
        number = int.from_bytes(told.read(8))
        texts = read_both(said, complained, lambda: os.kill(number, signal.SIGKILL))
        status = os.waitstatus_to_exitcode(int.from_bytes(told.read(8)))
    return subprocess.CompletedProcess("launch.py", status, *(text.decode() for text in texts))


@cache
def _open_launcher() -> socket.socket:
    """Return a line to a process that has loaded what `launch.py` needs, for as long as this one lives."""
    ours, theirs = socket.socketpair()
    with theirs:
        argv = [sys.executable, "-IS", str(LAUNCH), "serve"]
        launcher = subprocess.Popen(argv, stdin=theirs, env={"CANARY": CANARY})
    atexit.register(lambda: (ours.close(), launcher.wait()))
    return ours


def read_both(out: FileIO, errors: FileIO, give_up: Callable[[], None]) -> tuple[bytes, bytes]:
    """Return what two streams say until they end; fail, after giving up, where that takes more than a minute."""
    said: dict[FileIO, bytes] = {out: b"", errors: b""}
    until = time.monotonic() + FOREVER
    with selectors.DefaultSelector() as selector:
        for stream in said:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(until - time.monotonic())
            if not ready:
                give_up()
                raise TimeoutError(f"no end after a minute; said so far: {said}")
            for key, _ in ready:
                stream: FileIO = key.fileobj  # type: ignore[assignment, no-redef]
                more = stream.read(65536)
                said[stream] += more
                if not more:
                    selector.unregister(stream)
    return said[out], said[errors]


FILES = {
    ".env": "TOKEN=secret\n",
    "conf/secrets/key": "secret\n",
    "conf/app.toml": "name = 'app'\n",
    "src/main.py": "import sys\n\n\ndef main() -> None:\n    print('hello', sys.argv)\n",
    "src/data.csv": "name,size\none,1\ntwo,2\nthree,3\n",
    "data.json": '{"name": "app", "list": [1, 2, 3]}\n',
    "README.md": "# App\n\nA line about the app.\n",
    "white space/ümläut.txt": "words\n",
}
HISTORY = """git init -q -b main . && git config user.name A && git config user.email a@example.org &&
printf '.env\\nconf/secrets\\n' > .gitignore && git add . && git commit -qm One && echo more >> README.md &&
git commit -qam Two && echo changed >> src/data.csv && echo new > untracked.txt"""


@contextmanager
def open_place(user: int | None, tier: Tier = "full", landlock: int = 0) -> Iterator[Place]:
    """Open a place for a user, who owns all of it; skip where the machine cannot hold a sandbox, with its reason."""
    base, store = (Path(os.path.realpath(tempfile.mkdtemp(prefix="foregate-sandbox-"))) for _ in range(2))
    try:
        place = Place(base, store, user, tier, landlock)
        for name, text in FILES.items():
            path = place.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (place.home / ".ssh").mkdir(parents=True)
        (place.home / ".ssh/id").write_text("secret")
        base.chmod(0o755)
        if user is not None:
            for path in [store, base, *base.rglob("*")]:
                os.chown(path, user, user)
        made = place.run_outside("/bin/sh", "-c", HISTORY)
        assert made.returncode == 0, made.stderr
        (place.home / ".ssh").chmod(0o700)
        found = place.run_probe()
        if found["tier"] != tier:
            assert found["cure"], f"the sandbox is broken: {found['reason']}"
            pytest.skip(f"no sandbox here: {found['reason']}; {found['cure']}")
        yield place
    finally:
        shutil.rmtree(base)
        remove_tree(str(store))


def list_users() -> list[object]:
    """Return who can be tried here: root and an ordinary user where this is root, else only the latter."""
    return [pytest.param(None, id="root"), pytest.param(NOBODY, id="ordinary")] if os.geteuid() == 0 else [None]

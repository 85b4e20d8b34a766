"""The sandboxes of a workspace: whether this machine has them, what one shows, and where they keep what is written."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path

from foregate.agent.sandbox.plan import Failure, HoldingTier, SandboxPlan
from foregate.agent.sandbox.probe import TRY, Probe, explain, is_passing
from foregate.agent.sandbox.removal import remove_tree
from foregate.agent.sandbox.starter import SandboxFailed, start_program
from foregate.agent.sandbox.visible import is_inside, plan_read, show_needs
from foregate.agent.workspace.secret_values import remember_files
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.commands_section import SandboxLimits
from foregate.policy.policy import Policy
from foregate.schemas.errors import WorkspaceError

_RUNS, _HELD, _LOCK = "run-", "held", "lock"
_PROBES = "probe-"
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PAUSES = (0.005, 0.01, 0.02, 0.05)
"""Seconds between looks whether another command is over; the last again and again."""
_held: dict[str, int] = {}
"""By its folder the open file that says that this process comes back to a sandbox: its lock ends with the process."""


def find_tier(workspace: Workspace, policy: Policy) -> Probe:
    """Return what this machine can do for a workspace, found out once by running a command in a sandbox.

    Raises WorkspaceError where it could not be found out, by a fault of ours or for want of memory or the like: then
    no command is to run, since the machine may well have sandboxes.
    """
    # Also one in memory.
    if workspace.root == Path("/"):
        return Probe(tier="none", reason="a workspace that is the whole machine cannot be shown in a sandbox", cure="")
    return _probe(str(workspace.root), os.environ.get("PATH", os.defpath), policy.commands.sandbox)


def plan_sandbox(
    workspace: Workspace,
    policy: Policy,
    *,
    named: Collection[str] | None = None,
    path: str = "",
    more: tuple[str, ...] = (),
    programs: Iterable[str] = (),
) -> SandboxPlan | None:
    """Return the sandbox a command that only reads runs in, None where this machine has none.

    Of its secret files only those are there that are `named`, by paths relative to the workspace; with None all are.
    What it shows of the machine are the system, the programs of `path` ("" = our own PATH), the folders `more`, and
    what `programs` need; see `show_programs`.
    """
    tier = find_tier(workspace, policy)["tier"]
    if tier == "none":
        return None
    path = path or os.environ.get("PATH", os.defpath)
    plan = show_programs(_plan(tier, str(workspace.root), path, policy.commands.sandbox, more), programs)
    if named is None:
        return plan
    hidden = [f"{workspace.root}/{name}" for name in list_secret_files(workspace, policy) if name not in named]
    return {**plan, "masks": [*plan["masks"], *hidden]}


def show_programs(plan: SandboxPlan, programs: Iterable[str]) -> SandboxPlan:
    """Return a plan that also shows what programs need to start whose files somebody may have changed.

    These are those of the workspace's virtual environments, those that PATH finds in the workspace, and `programs`, by
    absolute paths or relative to the workspace. Of what they name only interpreters are shown.
    """
    root = plan["workspace"]
    found = [os.path.realpath(folder) for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder]
    folders = [folder for folder in found if is_inside(folder, [root])]
    named = [str(Path(root, name)) for name in programs if "/" in name]
    return show_needs(plan, str(Path.home()), folders, named)


def list_secret_files(workspace: Workspace, policy: Policy) -> list[str]:
    """Return the files and folders that usually hold secrets, relative to the workspace."""
    return remember_files(workspace.root, policy.files.secret).find()


def plan_writable(plan: SandboxPlan, policy: Policy) -> SandboxPlan:
    """Return a sandbox whose program may write to the workspace itself, but for files of `list_kept_files`.

    One of such a name that is not there yet can be made.
    """
    kept = list_kept_files(Path(plan["workspace"]), policy)
    return {**plan, "writable": True, "kept": [f"{plan['workspace']}/{path}" for path in kept]}


def list_kept_files(root: Path, policy: Policy) -> list[str]:
    """Return the files and folders of a workspace that are protected, or as a whole run by themselves."""
    running = (path for entry in policy.files.runs_by_itself if not entry.keys for path in entry.paths)
    return remember_files(root, (*policy.files.protected, *running)).find()


def can_keep(plan: SandboxPlan | None) -> bool:
    """Whether a sandbox can hold parts of a writable workspace read-only."""
    return plan is not None and plan["tier"] == "full"


@lru_cache(maxsize=32)
def _plan(tier: HoldingTier, root: str, path: str, limits: SandboxLimits, more: tuple[str, ...] = ()) -> SandboxPlan:
    plan = plan_read(
        root,
        path,
        str(Path.home()),
        more=more,
        scratch_bytes=limits.scratch,
        limits={"memory_bytes": limits.memory, "processes": limits.processes, "file_bytes": limits.scratch},
    )
    return {**plan, "tier": tier, "scratch": tempfile.gettempdir()}


@lru_cache(maxsize=32)
def _probe(root: str, path: str, limits: SandboxLimits) -> Probe:
    full = probe_plan(partial(_plan, "full", root, path, limits), TRY["full"])
    if full["tier"] == "full":
        return full
    limited = probe_plan(partial(_plan, "limited", root, path, limits), TRY["limited"])
    if limited["tier"] == "limited":
        return {**full, "tier": "limited"}
    reasons = dict.fromkeys([full["reason"], limited["reason"]])
    return {**full, "reason": "; and ".join(reasons), "cure": full["cure"] or limited["cure"]}


def probe_plan(make: Callable[[], SandboxPlan], line: str) -> Probe:
    """Return what became of running a line of the shell, which finds out, in a sandbox.

    Raises WorkspaceError where that says nothing about the machine; see `is_passing`.
    """
    if sys.platform != "linux":
        return Probe(tier="none", reason="sandboxes are made of what only Linux has", cure="")
    try:
        plan = make()
        root = plan["workspace"]
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            words, environment = ("sh", "-c", line), {"HOME": plan["home"], "PATH": os.defpath}
            started = start_program(
                words, program="/bin/sh", environment=environment, folder=folder, merged=True, sandbox=(plan, root)
            )
        finally:
            os.close(folder)
    except SandboxFailed as failed:
        if is_passing(failed.failure["step"], failed.failure["number"]):
            raise
        return explain(failed.failure)
    except OSError as error:
        if is_passing("start", error.errno or 0):
            raise WorkspaceError(f"nothing ran: no sandbox can be started now ({error.strerror}); try again") from None
        return Probe(tier="none", reason=str(error), cure="")
    while not started.has_ended:
        started.look(wait=True)
    code = started.end()
    if code is None or code < 0:
        raise WorkspaceError("nothing ran: what tried out a sandbox here was ended from outside; try again")
    if code:
        return Probe(tier="none", reason=f"a sandbox started and did not hold (exit code {code})", cure="")
    return Probe(tier=plan["tier"], reason="", cure="")


def find_folder(workspace: Workspace) -> Path:
    """Return the folder where the sandboxes of a workspace keep what is written in them, made where it is missing.

    Raises WorkspaceError where it cannot be made, or others can write to it.
    """
    base = workspace.sandboxes or Path(tempfile.gettempdir(), f"foregate-{os.geteuid()}")
    folder = base / hashlib.sha256(os.fsencode(workspace.root)).hexdigest()[:32]
    try:
        for one in (base, folder):
            one.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = one.lstat()
            if found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise WorkspaceError(f"others can write to `{one}`; remove it, or set FOREGATE_HOME")
    except OSError as error:
        if is_passing("upper", error.errno or 0):
            sentence = f"`{folder}` cannot be made ({error.strerror})"
            raise SandboxFailed(Failure(step="upper", number=error.errno or 0, sentence=sentence)) from None
        raise WorkspaceError(f"`{folder}` cannot be made ({error.strerror}); set FOREGATE_HOME") from None
    return folder


@contextmanager
def open_probe(folder: Path) -> Iterator[str]:
    """Make a folder for a sandbox that is only tried, and remove it; raise WorkspaceError where none can be made."""
    with _refuse_errors(folder):
        upper = tempfile.mkdtemp(prefix=_PROBES, dir=folder)
    try:
        yield upper
    finally:
        with suppress(OSError):
            remove_tree(upper)


def make_upper(folder: Path) -> str:
    """Make a folder for what one sandbox writes, kept while this process lives; raise WorkspaceError where none can be.

    It is this process's until `discard_upper`.
    """
    with _refuse_errors(folder):
        upper = tempfile.mkdtemp(prefix=_RUNS, dir=folder)
        hold_upper(upper, make=True)
    return upper


@contextmanager
def _refuse_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WorkspaceError(
            f"no sandbox can be made in `{folder}` ({error.strerror}); free some space, or set FOREGATE_HOME"
        ) from None


def hold_upper(upper: str, *, make: bool = False) -> None:
    """Keep what a sandbox wrote from being swept while this process lives; nothing happens where nothing is there."""
    if upper in _held:
        return
    try:
        file = os.open(f"{upper}/{_HELD}", _OPEN | (os.O_CREAT if make else 0), 0o600)
    except FileNotFoundError:
        return
    # The process that made it still lives; or there are no locks here.
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _held[upper] = file


def note_end(upper: str) -> None:
    """Note that a sandbox has ended now: from then on it is kept for a while."""
    with suppress(OSError):
        os.utime(f"{upper}/{_HELD}")


def discard_upper(upper: str) -> None:
    """Throw away what a sandbox wrote; what cannot be removed now is swept later."""
    with suppress(OSError):
        remove_tree(upper)
    if (file := _held.pop(upper, None)) is not None:
        os.close(file)


def sweep_folder(folder: Path, seconds: int) -> None:
    """Remove what sandboxes have left whose process is gone, where they ended longer ago than so many seconds."""
    for path in [*folder.glob(f"{_RUNS}*"), *folder.glob(f"{_PROBES}*")]:
        with suppress(OSError):
            _sweep_upper(path, seconds)


def _sweep_upper(path: Path, seconds: int) -> None:
    try:
        file = os.open(path / _HELD, _OPEN)
    except FileNotFoundError:
        # It ended before it began, or begins just now.
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if time.time() - os.fstat(file).st_mtime > seconds:
            remove_tree(str(path))
    finally:
        os.close(file)


@asynccontextmanager
async def hold_turn(workspace: Workspace) -> AsyncIterator[None]:
    """Wait until no other process works in a sandbox of this workspace, or applies one; none does meanwhile.

    It ends with the process, and whoever waits can be cancelled. Raises WorkspaceError where the folder of the
    sandboxes cannot be written to.
    """
    file = _open_lock(workspace)
    try:
        turn = 0
        # A thread that waits for a lock could not be cancelled.
        while not _can_lock(file):
            await asyncio.sleep(_PAUSES[min(turn, len(_PAUSES) - 1)])
            turn += 1
        yield
    finally:
        os.close(file)


@contextmanager
def seek_turn(workspace: Workspace) -> Iterator[bool]:
    """Say whether nobody works in a sandbox of this workspace, or applies one; where so, none does meanwhile.

    Raises WorkspaceError as `hold_turn` does.
    """
    # Also one in memory: there are no sandboxes of it.
    if workspace.root == Path("/"):
        yield True
        return
    file = _open_lock(workspace)
    try:
        yield _can_lock(file)
    finally:
        os.close(file)


def _open_lock(workspace: Workspace) -> int:
    folder = find_folder(workspace)
    with _refuse_errors(folder):
        return os.open(folder / _LOCK, _OPEN | os.O_CREAT, 0o600)


def _can_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # There are no locks here.
        return True
    return True

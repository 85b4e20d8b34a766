"""The folders in which sandboxes keep what is written: one at work at a time, and none that nobody comes back to."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from foregate.agent.sandbox.plan import Failure
from foregate.agent.sandbox.probe import is_passing
from foregate.agent.sandbox.removal import remove_tree
from foregate.agent.sandbox.starter import SandboxFailed
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.errors import WorkspaceError

_RUNS, _HELD, _LOCK = "run-", "held", "lock"
_PROBES = "probe-"
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PAUSES = (0.005, 0.01, 0.02, 0.05)
"""Seconds between looks whether another command is over; the last again and again."""
_held: dict[str, int] = {}
"""By its folder the open file that says that this process comes back to a sandbox: its lock ends with the process."""


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

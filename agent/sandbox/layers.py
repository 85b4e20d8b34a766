"""Folders that lie over one another, read as the kernel shows them: by descriptors, and without following a link."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from foregate.agent.sandbox.view import MARKS, find_layer

# '\040': how the kernel writes a blank in a mount's path.
_ESCAPED = re.compile(rb"\\([0-7]{3})")
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class OverlayLayer:
    """An open folder, and the start of the names of the attributes that mark what it holds, "" for the workspace.

    `mounts` are device and number of folders on which something is mounted, which a view shows as empty.
    """

    folder: int
    marks: str = ""
    mounts: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class LayerEntry:
    """What is seen under a name, and in which layer."""

    layer: OverlayLayer
    name: str
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)


@dataclass(frozen=True, slots=True)
class Merged:
    """A folder as seen where several lie over one another, the topmost first."""

    layers: tuple[OverlayLayer, ...]

    def find(self, name: str) -> LayerEntry | None:
        """Return what is seen under a name, None for nothing. Raises OSError."""
        for layer in self.layers:
            with suppress(FileNotFoundError):
                found = os.lstat(name, dir_fd=layer.folder)
                return None if is_whiteout(found) else LayerEntry(layer, name, found)
        return None

    def list_names(self) -> list[str]:
        """Return the names that are seen, sorted. Raises OSError."""
        names = {name for layer in self.layers for name in list_names(layer.folder)}
        return sorted(name for name in names if len(self.layers) == 1 or self.find(name) is not None)

    @contextmanager
    def open(self, name: str) -> Iterator[Merged | None]:
        """Open the folder of a name; it is None where no folder is seen there. Raises OSError."""
        with ExitStack() as opened:
            found: list[OverlayLayer] = []
            is_folder = False
            for layer in self.layers:
                try:
                    status = os.lstat(name, dir_fd=layer.folder)
                except FileNotFoundError:
                    continue
                if not stat.S_ISDIR(status.st_mode):
                    break
                is_folder = True
                if (status.st_dev, status.st_ino) in layer.mounts:
                    break
                folder = opened.enter_context(open_entry(layer.folder, name, own=bool(layer.marks)))
                found.append(OverlayLayer(folder, layer.marks, layer.mounts))
                if is_opaque(found[-1]):
                    break
            yield Merged(tuple(found)) if is_folder else None

    @contextmanager
    def open_beneath(self, names: Sequence[str]) -> Iterator[Merged | None]:
        """Open the folder that lies under one name after the other; None for a missing one. Raises OSError."""
        with ExitStack() as opened:
            here: Merged | None = self
            for name in names:
                here = here and opened.enter_context(here.open(name))
            yield here


@contextmanager
def open_layers(upper: str, caches: str, workspace: str) -> Iterator[tuple[OverlayLayer, Merged]]:
    """Open what a work sandbox wrote, and what it was laid over. Raises OSError."""
    marks = Path(upper, MARKS).read_text()
    kept = find_layer(caches, marks)
    with ExitStack() as opened:

        def enter(path: str | Path, own: str) -> int:
            return opened.enter_context(open_entry(-100, str(path), own=bool(own)))

        layers = [OverlayLayer(enter(kept, marks), marks)] if caches and kept.is_dir() else []
        mounts = (Path(path).stat() for path in list_submounts(workspace))
        layers.append(
            OverlayLayer(enter(workspace, ""), "", frozenset((found.st_dev, found.st_ino) for found in mounts))
        )
        yield OverlayLayer(enter(Path(upper, "upper"), marks), marks), Merged(tuple(layers))


def list_submounts(workspace: str) -> list[str]:
    """Return the folders in a workspace on which something is mounted, sorted: a sandbox for work shows them empty."""
    lines, inside = Path("/proc/self/mountinfo").read_bytes().splitlines(), os.fsencode(f"{workspace}/")
    paths = {_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), line.split(maxsplit=5)[4]) for line in lines}
    return sorted(os.fsdecode(path) for path in paths if path.startswith(inside) and Path(os.fsdecode(path)).is_dir())


@contextmanager
def open_entry(parent: int, name: str, *, own: bool) -> Iterator[int]:
    """Open a file or folder of an open folder for reading; a link is not followed. Raises OSError.

    Where it is our `own`, so that it lies in no workspace, what a command closed can be read and changed meanwhile.
    """
    with _make_readable(parent, name) if own else nullcontext():
        found = os.open(name, _FLAGS, dir_fd=parent)
        try:
            yield found
        finally:
            os.close(found)


@contextmanager
def _make_readable(parent: int, name: str) -> Iterator[None]:
    found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        status = os.fstat(found)
        mode, least = stat.S_IMODE(status.st_mode), 0o700 if stat.S_ISDIR(status.st_mode) else 0o400
        lacking = mode & least != least
        if lacking:
            os.chmod(f"/proc/self/fd/{found}", mode | least)  # noqa: PTH101 - no path
        try:
            yield
        finally:
            if lacking:
                os.chmod(f"/proc/self/fd/{found}", mode)  # noqa: PTH101
    finally:
        os.close(found)


def list_names(folder: int) -> list[str]:
    """Return what an open folder holds, sorted. Raises OSError."""
    return sorted(os.listdir(folder))


def is_whiteout(status: os.stat_result) -> bool:
    """Whether a file says that nothing is seen here."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_opaque(layer: OverlayLayer) -> bool:
    """Whether an open folder hides what lies under it."""
    return bool(layer.marks) and read_mark(layer, "opaque") == b"y"


def read_mark(layer: OverlayLayer, name: str) -> bytes:
    """Return a mark of an open folder, b"" where it has none."""
    with suppress(OSError):
        return os.getxattr(layer.folder, layer.marks + name)
    return b""

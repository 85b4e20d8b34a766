"""Files of a workspace by their names, and the values in its secret ones: read again only where one has changed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from foregate.policy.policy import Policy
from foregate.policy.risk.globs import is_beneath
from foregate.policy.risk.secret_values import find_values
from foregate.telemetry.log.masking import Secret

_SETTLED = 100_000_000
"""Nanoseconds after which a folder's time is sure to tell a later change apart."""
_MOST = 256
"""Files whose values are known, and values of them: one expression is made of all their spellings."""


class Folder(NamedTuple):
    """What was in a folder: its time in nanoseconds, what matches in it, and the folders to look into."""

    modified: int
    matches: tuple[str, ...]
    inside: tuple[str, ...]


class MatchingFiles:
    """Files and folders of a root that match one of the patterns; links are not followed, nor is git's own folder."""

    def __init__(self, root: Path, patterns: tuple[str, ...]) -> None:
        self._root, self._patterns = str(root), patterns
        self._known: dict[str, Folder] = {}

    def find(self) -> list[str]:
        """Return their paths, relative to the root. A folder that cannot be read holds none that a command could."""
        found: list[str] = []
        seen: dict[str, Folder] = {}
        pending = [""]
        while pending:
            here = pending.pop()
            try:
                folder = self._read_folder(here)
            except OSError:
                continue
            if time.time_ns() - folder.modified > _SETTLED:
                seen[here] = folder
            found += folder.matches
            pending += folder.inside
        self._known = seen
        return found

    def _read_folder(self, here: str) -> Folder:
        path = f"{self._root}/{here}"
        modified = os.lstat(path).st_mtime_ns
        known = self._known.get(here)
        if known is not None and known.modified == modified:
            return known
        matches, inside = [], []
        with os.scandir(path) as entries:
            for entry in entries:
                name = f"{here}{entry.name}"
                if is_beneath(name, self._patterns):
                    matches.append(name)
                elif entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                    inside.append(f"{name}/")
        return Folder(modified, tuple(matches), tuple(inside))


@lru_cache(maxsize=32)
def remember_files(root: Path, patterns: tuple[str, ...]) -> MatchingFiles:
    """Return what this process knows of the files of a root that match."""
    return MatchingFiles(root, patterns)


class _Read(NamedTuple):
    """What was read of a file: what told this content apart, and the secrets in it."""

    stamp: tuple[int, int, int]
    secrets: tuple[Secret, ...]


class FileSecrets:
    """The values that stand in the secret files beneath a root, as the policy wants them found. A root of `/`, which
    also stands for a workspace in memory, has none. `values` are those found last."""

    def __init__(self, root: Path, policy: Policy) -> None:
        self._root, self._files, self._sensitive = root, policy.files, policy.sensitive
        self._known: dict[str, _Read] = {}
        self.values: tuple[Secret, ...] = ()

    def find(self) -> tuple[Secret, ...]:
        """Return the values, each once; a file that cannot be read has none that a tool could show."""
        if not self._sensitive.values.named or self._root == Path("/"):
            return ()
        seen: dict[str, _Read] = {}
        for path in self._list_files():
            if len(seen) >= _MOST:
                break
            with suppress(OSError):
                seen[path] = self._read(path)
        self._known = seen
        found = {one.value: one for read in seen.values() for one in read.secrets}
        self.values = tuple(found.values())[:_MOST]
        return self.values

    def _list_files(self) -> Iterator[str]:
        """Yield the secret files, and those directly in a secret folder."""
        for name in remember_files(self._root, self._files.secret).find():
            if is_beneath(name, self._sensitive.values.besides):
                continue
            path = f"{self._root}/{name}"
            if Path(path).is_dir() and not Path(path).is_symlink():
                with suppress(OSError), os.scandir(path) as entries:
                    yield from (entry.path for entry in entries)
            else:
                yield path

    def _read(self, path: str) -> _Read:
        found = os.lstat(path)
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        known = self._known.get(path)
        if known is not None and known.stamp == stamp:
            return known
        if not stat.S_ISREG(found.st_mode) or found.st_size > self._files.max_read:
            return _Read(stamp, ())
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            text = stream.read(self._files.max_read).decode("utf-8", "replace")
        return _Read(stamp, tuple(Secret(name, value) for name, value in find_values(text, self._sensitive)))

"""Files of a workspace by their names, found again quickly: a folder is read only where its time has changed."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from foregate.policy.risk.globs import is_beneath

_SETTLED = 100_000_000
"""Nanoseconds after which a folder's time is sure to tell a later change apart."""


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

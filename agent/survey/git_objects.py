"""Objects of git repositories that a program deleted in its sandbox: what git itself could not bring back."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.sandbox import PathChange, SandboxedChanges

_OBJECT = re.compile(
    r"((?:.*/)?\.git/objects)/(?:([0-9a-f]{2}/(?:[0-9a-f]{38}|[0-9a-f]{62}))|pack/pack-([0-9a-f]{40}|[0-9a-f]{64})\.pack)",
    re.DOTALL,
)
_MOST = 1 << 26
"""Bytes of the largest index of a pack that is read, which names some two million objects."""
_MAGIC, _NAMES = b"\xfftOc\0\0\0\2", 1032


class GitObjects:
    """Says which deleted files hold an object that lies nowhere else in its repository afterwards.

    Packing objects anew deletes most files and loses nothing. An index that cannot be read names no object.
    """

    def __init__(self, workspace: Workspace, found: SandboxedChanges) -> None:
        self._workspace, self._upper = workspace, Path(found.upper, "upper")
        self._changes: Mapping[str, PathChange] = {change.path: change for change in found.changes}
        self._packed: dict[str, set[bytes]] = {}
        """By the folder of a repository's objects what is named by the packs there are afterwards."""

    def is_lost(self, path: str) -> bool:
        """Whether a path that is deleted holds an object, or a pack one, that is nowhere else afterwards."""
        match = _OBJECT.fullmatch(path)
        if match is None:
            return False
        store, loose, pack = match.groups()
        try:
            index = f"{store}/pack/pack-{pack}.idx"
            names = {bytes.fromhex(loose.replace("/", ""))} if loose else self._read_index(index, is_after=False)
        except WorkspaceError:
            return True
        if store not in self._packed:
            self._packed[store] = self._list_packed(store)
        return any(not self._is_loose(store, name.hex()) for name in names - self._packed[store])

    def _list_packed(self, store: str) -> set[bytes]:
        listed: set[str] = set()
        with suppress(OSError), self._workspace.directory(f"{store}/pack") as folder:
            listed = {f"{store}/pack/{name}" for name in os.listdir(folder)}  # noqa: PTH208 - a descriptor is no path
        listed |= {path for path in self._changes if path.startswith(f"{store}/pack/")}
        packed: set[bytes] = set()
        for path in listed:
            if path.endswith(".idx") and self._will_exist(path) and self._will_exist(f"{path[:-4]}.pack"):
                with suppress(WorkspaceError):
                    packed |= self._read_index(path, is_after=True)
        return packed

    def _is_loose(self, store: str, name: str) -> bool:
        return self._will_exist(f"{store}/{name[:2]}/{name[2:]}")

    def _will_exist(self, path: str) -> bool:
        change = self._changes.get(path)
        return bool(self._workspace.look(path).kind if change is None else change.after.kind)

    def _read_index(self, path: str, *, is_after: bool) -> set[bytes]:
        """Return the objects an index names, as it is now or afterwards; raise WorkspaceError where it cannot be."""
        if is_after and path in self._changes:
            file = self._upper / path
            try:
                data = file.read_bytes() if file.lstat().st_size <= _MOST else b""
            except OSError as error:
                raise WorkspaceError(f"`{path[:80]}` cannot be read: {error.strerror}") from None
        else:
            data = self._workspace.read(path, limit=_MOST)
        length = len(path.rpartition("-")[2].removesuffix(".idx")) // 2
        end = _NAMES + int.from_bytes(data[_NAMES - 4 : _NAMES]) * length
        if not data.startswith(_MAGIC) or len(data) < end:
            raise WorkspaceError(f"`{path[:80]}` is no index of a pack that can be read here")
        return {data[at : at + length] for at in range(_NAMES, end, length)}

"""Objects of git repositories that a program took away in its sandbox: what git itself could not bring back."""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.sandbox import PathChange, SandboxedChanges

# ".git/objects/9f/86d081884c7d659a2feaa0c55ad015a3bf4f1b".
_OBJECT = compile_late(
    r"((?:.*/)?\.git/objects)/(?:([0-9a-f]{2}/(?:[0-9a-f]{38}|[0-9a-f]{62}))|pack/pack-([0-9a-f]{40}|[0-9a-f]{64})\.pack)",
    re.DOTALL,
)
_MOST = 1 << 26
"""Bytes of the largest index of a pack that is read, which names some two million objects, and of an object."""
_BLOCK = 1 << 20
# Version 2 of an index: 8 bytes, 256 numbers of 4 bytes each, then the names.
_MAGIC, _NAMES = b"\xfftOc\0\0\0\2", 1032


class GitObjects:
    """Says which files held an object that lies nowhere else in its repository afterwards.

    Packing objects anew deletes most files and loses nothing. An index that cannot be read names no object, and a file
    that the program wrote holds one only where it is whole.
    """

    def __init__(self, workspace: Workspace, found: SandboxedChanges) -> None:
        self._workspace, self._upper = workspace, Path(found.upper, "upper")
        self._changes: Mapping[str, PathChange] = {change.path: change for change in found.changes}
        self._packed: dict[str, set[bytes]] = {}
        """By the folder of a repository's objects what is named by the packs there are afterwards."""

    def is_lost(self, path: str) -> bool:
        """Whether a path that is deleted or written anew held an object, or a pack one, that is nowhere afterwards."""
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
            if path.endswith(".idx") and self._is_whole(f"{path[:-4]}.pack", _check_pack):
                with suppress(WorkspaceError):
                    packed |= self._read_index(path, is_after=True)
        return packed

    def _is_loose(self, store: str, name: str) -> bool:
        return self._is_whole(f"{store}/{name[:2]}/{name[2:]}", partial(_check_object, name))

    def _is_whole(self, path: str, check: Callable[[BinaryIO], bool]) -> bool:
        """Whether a file is there afterwards, and as it was or as it has to be."""
        change = self._changes.get(path)
        if change is None:
            return self._workspace.look(path).kind == "file"
        if change.after.kind != "file" or change.after.hash == change.before.hash:
            return change.after.kind == "file"
        with suppress(OSError, zlib.error), (self._upper / path).open("rb") as file:
            return check(file)
        return False

    def _read_index(self, path: str, *, is_after: bool) -> set[bytes]:
        """Return the objects an index names, now or afterwards; raise WorkspaceError where it cannot be."""
        if is_after and path in self._changes:
            file = self._upper / path
            if self._changes[path].after.kind != "file":
                raise WorkspaceError(f"`{path[:80]}` is no file")
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


def _check_object(name: str, file: BinaryIO) -> bool:
    """Whether a file holds the object of this name; raise zlib.error where it holds none."""
    found, unpacked = _start_hash(name), zlib.decompressobj()
    size, block = 0, file.read(_BLOCK)
    while block and size <= _MOST:
        # Block by block: a small file can unpack to more than memory holds.
        part = unpacked.decompress(block, _BLOCK)
        size += len(part)
        found.update(part)
        block = unpacked.unconsumed_tail or file.read(_BLOCK)
    return unpacked.eof and found.hexdigest() == name


def _check_pack(file: BinaryIO) -> bool:
    """Whether the hash at the end of a pack is that of all before it."""
    name = Path(file.name).stem.rpartition("-")[2]
    found, end = _start_hash(name), b""
    while block := file.read(_BLOCK):
        whole = end + block
        end = whole[-found.digest_size :]
        found.update(whole[: -found.digest_size])
    return found.digest() == end


def _start_hash(name: str) -> hashlib._Hash:
    """Return the hash of the kind that gives names of such a length."""
    return hashlib.new("sha1" if len(name) == 40 else "sha256", usedforsecurity=False)

"""The permissions a person has given for one workspace: kept in a file of Foregate's own, never in the workspace."""

from __future__ import annotations

import getpass
import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from foregate.agent.workspace.json_file import LockedJsonFile
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, UsageError, WorkspaceError
from foregate.schemas.permission import Permission
from foregate.schemas.strict_json import Json, as_object, get_int, get_list, get_text

LARGEST = 4 * 1024 * 1024
"""Bytes of the file at most."""


class Permissions:
    """The permissions for `workspace`, in a file of the folder `place`; without one there are none, and none is kept.

    A file that cannot be read, that others can write to or that is of another kind permits nothing: `problem` says so,
    and what to do.
    """

    def __init__(self, place: Path | None, workspace: str) -> None:
        name = f"{hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]}.json"
        self.path = place / name if place is not None else None
        self._file = LockedJsonFile(self.path, "the file of permissions", LARGEST) if self.path is not None else None
        self._workspace = workspace
        self._stamp: tuple[int, ...] = ()
        self._kept: tuple[Permission, ...] = ()
        self.problem = ""

    def list_given(self) -> tuple[Permission, ...]:
        """Return the permissions in force, read anew where the file has changed."""
        stamp = self._read_stamp()
        if stamp != self._stamp:
            self._stamp, self._kept, self.problem = stamp, (), ""
            try:
                self._kept = self._read()
            except WorkspaceError as error:
                self.problem = f"{error}; until then nothing is permitted by it"
        return self._kept

    def keep(self, given: Iterable[Permission], *, at: str, session: str, seq: int) -> None:
        """Keep what a person permits, in the place of the same permission of before.

        Raises WorkspaceError for a file that cannot be read or written, and keeps none.
        """
        new = {one.id: replace(one, by=find_user(), at=at, session=session, seq=seq) for one in given}
        if self._file is not None and new:
            with self._file.lock():
                self._write([*(one for one in self._read() if one.id not in new), *new.values()])

    def revoke(self, wanted: Sequence[str]) -> list[Permission]:
        """Take permissions away by their ids, and return them; raise UsageError for one that is not there."""
        assert self._file is not None
        with self._file.lock():
            kept = self._read()
            unknown = [name for name in wanted if all(one.id != name for one in kept)]
            if unknown:
                known = ", ".join(one.id for one in kept) or "none is given here"
                raise UsageError(f"there is no permission `{unknown[0][:40]}`; there are: {known}")
            self._write([one for one in kept if one.id not in wanted])
        return [one for one in kept if one.id in wanted]

    def _read_stamp(self) -> tuple[int, ...]:
        try:
            found = self.path.stat() if self.path is not None else None
        except OSError:
            found = None
        return () if found is None else (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)

    def _read(self) -> tuple[Permission, ...]:
        assert self._file is not None
        content = self._file.read()
        if content is None:
            return ()
        self._check_owner()
        try:
            kept = as_object(content)
            if get_int(kept, "version") != 1 or {*kept} != {"version", "workspace", "permissions"}:
                raise InvalidJson("it is of another version")
            if get_text(kept, "workspace") != self._workspace:
                raise InvalidJson("it is of another workspace")
            return tuple(self._read_one(number, one) for number, one in enumerate(get_list(kept, "permissions"), 1))
        except InvalidJson as error:
            raise WorkspaceError(
                f"{self._file} is not as Foregate wrote it ({error}); mend it, or move it away"
            ) from None

    def _read_one(self, number: int, given: Json) -> Permission:
        try:
            return strict_json.load(Permission, given)
        except InvalidJson as error:
            raise InvalidJson(f"permission {number}: {error}") from None

    def _check_owner(self) -> None:
        assert self.path is not None
        found = self.path.lstat()
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise WorkspaceError(f"others could have written {self._file}; look at it, and make it yours alone")

    def _write(self, kept: Sequence[Permission]) -> None:
        assert self._file is not None
        dumped: list[Json] = [strict_json.dump(one) for one in sorted(kept, key=lambda one: (one.at, one.id))]
        about: dict[str, Json] = {"version": 1, "workspace": self._workspace, "permissions": dumped}
        self._file.replace(strict_json.canonical(about))


def find_user() -> str:
    """Return the name of the operating system's user, or their number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())

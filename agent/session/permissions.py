"""The permissions a person has given for one workspace: kept in a file of Foregate's own, never in the workspace."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from foregate.agent.workspace.json_file import LockedJsonFile
from foregate.gates.support.permitting import name_permission
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, UsageError, WorkspaceError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.permission import Permission
from foregate.schemas.strict_json import Json, as_object, get_int, get_list, get_text

LARGEST = 4 * 1024 * 1024
"""Bytes of the file at most."""
_FIELDS = {"version", "workspace", "permissions"}
# "`words`": how a message names the field that is wrong.
_QUOTED = compile_late(r"`([^`.\[\]]+)`")
# ", ": what stands between two permissions.
_PLACE = compile_late(r"[\s,]*")


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

    def keep(self, given: Iterable[Permission], *, at: str, session: str, seq: int, by: str = "") -> None:
        """Keep what a person permits, in the place of the same permission of before; `by` is "" for who runs this.

        Raises WorkspaceError for a file that cannot be read or written, and keeps none.
        """
        by = by or find_user()
        new = {one.id: replace(one, by=by, at=at, session=session, seq=seq) for one in given}
        if self._file is not None and new:
            with self._file.lock():
                self._write([*(one for one in self._read() if one.id not in new), *new.values()])

    def add(self, new: Permission, *, at: str, instead: str = "") -> None:
        """Keep what a person wrote by hand, with `instead` in the place of the one with this id.

        Raises WorkspaceError as `keep` does, and UsageError where there is no such permission.
        """
        if instead:
            (old,) = self.revoke([instead])
            new = replace(new, session=old.session, seq=old.seq)
        self.keep([new], at=at, session=new.session, seq=new.seq)

    def find(self, name: str) -> Permission:
        """Return the permission of an id; raise UsageError for an unknown one."""
        given = {one.id: one for one in self.list_given()}
        if name not in given:
            known = ", ".join(given) or "none is given here"
            raise UsageError(f"there is no permission `{name[:40]}`; there are: {known}")
        return given[name]

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
        text = self._file.read_text()
        if text is None:
            return ()
        self._check_owner()
        try:
            kept = as_object(self._file.parse(text))
            if unknown := {*kept} - _FIELDS:
                name = min(unknown)
                raise InvalidJson(f"line {find_line(text, name)}: there is no field `{name[:40]}`")
            if get_int(kept, "version") != 1:
                raise InvalidJson(f"line {find_line(text, 'version')}: it is of another version")
            if get_text(kept, "workspace") != self._workspace:
                raise InvalidJson(f"line {find_line(text, 'workspace')}: it is of another workspace")
            listed = enumerate(get_list(kept, "permissions"), 1)
            return tuple(_read_one(text, number, one) for number, one in listed)
        except InvalidJson as error:
            cure = "take that out, or move the file away; `foregate permissions` adds and narrows"
            raise WorkspaceError(f"{self._file} is not as Foregate wrote it ({error}); {cure}") from None

    def _check_owner(self) -> None:
        assert self.path is not None
        found = self.path.lstat()
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise WorkspaceError(f"others could have written {self._file}; look at it, and make it yours alone")

    def _write(self, kept: Sequence[Permission]) -> None:
        assert self._file is not None
        dumped: list[Json] = [strict_json.dump(one) for one in sorted(kept, key=lambda one: (one.at, one.id))]
        about: dict[str, Json] = {"version": 1, "workspace": self._workspace, "permissions": dumped}
        self._file.replace(json.dumps(about, indent=1, ensure_ascii=False).encode() + b"\n")


def _read_one(text: str, number: int, given: Json) -> Permission:
    """Return a permission of the file; raise InvalidJson with its line where it covers another thing than it says."""
    try:
        one = strict_json.load(Permission, given)
    except InvalidJson as error:
        field = _QUOTED.search(str(error))
        line = find_line(text, field[1] if field else "", number)
        raise InvalidJson(f"line {line}, permission {number}: {error}") from None
    whole = name_permission(one)
    if one.words != whole.words or (one.section and one.id != whole.id):
        line = find_line(text, "words", number)
        raise InvalidJson(f"line {line}, permission {number}: what it says and what it covers are not the same")
    return one


def find_line(text: str, field: str, number: int = 0) -> int:
    """Return the line of a JSON text where a field stands first, from permission `number` on; 1 where it is unknown."""
    place, decoder = 0, json.JSONDecoder()
    if number:
        place = text.find("[", max(0, text.find('"permissions"'))) + 1
        for _ in range(number - 1):
            try:
                place = decoder.raw_decode(text, _PLACE.match(text, place).end())[1]  # type: ignore[union-attr]
            except ValueError:
                return 1
        place = _PLACE.match(text, place).end()  # type: ignore[union-attr]
    found = text.find(f'"{field}"', place) if field else place
    return text.count("\n", 0, max(found, place)) + 1


def find_user() -> str:
    """Return the name of the operating system's user, or their number; no variable can say another one."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())

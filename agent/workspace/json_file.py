"""One small JSON file of Foregate's own, shared by processes: strict reading, replaced in one step under a lock."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, WorkspaceError
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.temporary_file import replace_file


class LockedJsonFile(Struct, frozen=True):
    """The file at `path`; `name` is what a sentence calls it, `bound` the bytes it may have."""

    path: Path
    name: str
    bound: int

    def read(self) -> Json:
        """Return what the file holds, None for no file; raise WorkspaceError for anything but strict JSON."""
        text = self.read_text()
        return self.parse(text) if text is not None else None

    def read_text(self) -> str | None:
        """Return the text of the file, None for no file; raise WorkspaceError where it cannot be read."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise WorkspaceError(f"{self} cannot be read: {error.strerror}") from None
        with os.fdopen(file, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise WorkspaceError(f"{self} is not a regular file; move it away")
            data = stream.read(self.bound + 1)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise WorkspaceError(f"{self} cannot be read ({error}); repair or remove it") from None

    def parse(self, text: str) -> Json:
        """Return what the text of the file says; raise WorkspaceError for anything but strict JSON."""
        try:
            return strict_json.parse(text, max_bytes=self.bound)
        except InvalidJson as error:
            raise WorkspaceError(f"{self} cannot be read ({error}); repair or remove it") from None

    def replace(self, data: bytes) -> None:
        """Put `data` in the place of what is there; whoever reads sees all of the one or all of the other."""
        replace_file(self.path, data)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from replacing the file; raise WorkspaceError where it cannot be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise WorkspaceError(f"{self} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def __str__(self) -> str:
        return f"{self.name} `{self.path}`"

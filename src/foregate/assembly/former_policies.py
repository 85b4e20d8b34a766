"""A policy file that a command changes: replaced in one step, its former versions kept where the agent cannot write."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foregate.schemas.errors import UsageError
from foregate.telemetry.log.temporary_file import replace_file

_DIGITS = 16
"""Characters of a hash that tell one version of a file from another."""


class FormerPolicies:
    """The former versions of one file, oldest first, in a folder of the home that is named after the file's path.

    A version bears the hash of what took its place, so that nothing is brought back over a change of somebody else.
    """

    def __init__(self, place: Path, file: Path) -> None:
        self.file = file.resolve()
        self._folder = place / hashlib.sha256(os.fsencode(self.file)).hexdigest()[:32]

    def replace(self, before: bytes, after: bytes) -> None:
        """Put `after` in the place of the file and keep `before`, which it holds now.

        Raises UsageError where it holds something else, or cannot be written.
        """
        with self._lock(), _explain(self.file):
            mode = self._require(before)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            number = max((int(one.name[:6]) for one in self.list_versions()), default=0) + 1
            kept = self._folder / f"{number:06}-{_hash(after)}.yaml"
            replace_file(kept, before)
            try:
                replace_file(self.file, after, mode)
            except OSError:
                kept.unlink()
                raise

    def list_versions(self) -> list[Path]:
        """Return the former versions, oldest first."""
        return sorted(one for one in self._folder.glob("*.yaml") if one.name[:6].isdecimal())

    def read_newest(self) -> tuple[bytes, bytes]:
        """Return what the file holds and the version before; raise UsageError where none is kept."""
        versions = self.list_versions()
        if not versions:
            raise UsageError(f"no former version of `{self.file}` is kept; only `policy set` and `apply` keep one")
        with _explain(self.file):
            now = self.file.read_bytes()
            if versions[-1].stem.partition("-")[2] != _hash(now):
                why = f"`{self.file}` was changed since by something else than a command"
                raise UsageError(f"{why}; its former version is `{versions[-1]}`, to be copied by hand")
            return now, versions[-1].read_bytes()

    def take_back(self) -> None:
        """Put the newest former version in the place of the file again; raise UsageError where that cannot be."""
        with self._lock(), _explain(self.file):
            now, before = self.read_newest()
            replace_file(self.file, before, self._require(now))
            self.list_versions()[-1].unlink()

    def _require(self, held: bytes) -> int:
        """Return the mode of the file; raise UsageError where it holds something else."""
        found = self.file.stat()
        if self.file.read_bytes() != held:
            raise UsageError(f"`{self.file}` was changed meanwhile by somebody else; try again")
        return stat.S_IMODE(found.st_mode)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Keep other processes from changing the file by a command."""
        with _explain(self._folder):
            self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open(self._folder.parent / "lock", flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


@contextmanager
def _explain(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = f"`{error.filename or path}` cannot be read or written ({error.strerror})"
        raise UsageError(f"{why}; see whose file it is") from None

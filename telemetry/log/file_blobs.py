"""Content-addressed bytes in files: before-images, requests to planner and critic, long outputs."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from foregate.schemas import strict_json
from foregate.schemas.errors import LogError

_NAME = re.compile(r"[0-9a-f]{64}")


class FileBlobs:
    """Bytes by their SHA-256 below `folder`, two levels deep, for the owner only; several processes may share it."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _build_error("make", self.folder, error) from None

    def put(self, data: bytes) -> str:
        """Store `data` durably and return its SHA-256; what is stored already is checked and left alone.

        Raises LogError when it cannot be stored.
        """
        name = strict_json.sha256(data)
        path = self._find_path(name)
        try:
            if path.is_file() and _read_file(path) == data:
                return name
            for folder in (path.parent.parent, path.parent):
                if not folder.is_dir():
                    folder.mkdir(mode=0o700, exist_ok=True)
                    sync_folder(folder.parent)
            _write_file(path, data)
        except OSError as error:
            raise _build_error("store bytes in", self.folder, error) from None
        return name

    def get(self, hash: str) -> bytes:  # noqa: A002
        """Return the bytes; raise LogError when they are missing or do not match their name."""
        if not _NAME.fullmatch(hash):
            raise LogError(f"`{hash[:80]}` cannot name stored bytes; a name is 64 lower-case hexadecimal digits")
        try:
            data = _read_file(self._find_path(hash))
        except FileNotFoundError:
            raise LogError(f"no stored bytes are named `{hash}` in `{self.folder}`") from None
        except OSError as error:
            raise _build_error("read bytes from", self.folder, error) from None
        if strict_json.sha256(data) != hash:
            raise LogError(f"the stored bytes `{hash}` were changed or damaged; restore them from a copy")
        return data

    def _find_path(self, name: str) -> Path:
        return self.folder / name[:2] / name[2:4] / name


def _read_file(path: Path) -> bytes:
    """Read a file that is no link and, like a pipe put in its place, cannot make us wait."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        return stream.read()


def _write_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step that survives a power cut: readers find nothing or all of it."""
    temporary = path.with_name(f".new-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make what was put into a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _build_error(verb: str, folder: Path, error: OSError) -> LogError:
    return LogError(f"cannot {verb} `{folder}` ({error.strerror}); make sure the folder and its disk can be used")

"""Files that commands write for a person: what is there already stays, and no folder is made for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from foregate.schemas.errors import UsageError


def write_new(file: Path, text: str) -> None:
    """Write a file that is not there yet; raise UsageError where it is, or cannot be written."""
    try:
        with file.open("x", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(f"`{file}` is there already, so nothing was written; name another file") from None
    except OSError as error:
        raise _build_error(file, error) from None


@contextmanager
def open_new_file(path: Path, *, replacing: bool = False, flag: str = "--overwrite") -> Iterator[TextIO]:
    """Yield a private text file that gets its name when the block ends well. Raises UsageError where there is something
    already (unless `replacing` a file, as `flag` wants) or nothing can be written."""
    if os.path.lexists(path) and not (replacing and path.is_file()):
        raise UsageError(f"there is a `{path}` already; name another file, or write `{flag}` for a file")
    part = path.with_name(f".{path.name[:200]}.{os.urandom(4).hex()}")
    try:
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _build_error(path, error) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            yield file
        if replacing:
            part.replace(path)
        else:
            # Unlike a rename it fails where something came there meanwhile.
            os.link(part, path)
    except FileExistsError:
        raise UsageError(f"there is a `{path}` now; it was not replaced, and nothing was written") from None
    except OSError as error:
        raise _build_error(path, error) from None
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _build_error(path: Path, error: OSError) -> UsageError:
    return UsageError(f"`{path}` cannot be written ({error.strerror}); name a file in a folder of yours")

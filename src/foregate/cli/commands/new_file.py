"""A file that is there whole or not at all, and never in the place of another unless that was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from foregate.schemas.errors import UsageError


@contextmanager
def open_new_file(path: Path, *, replacing: bool = False) -> Iterator[TextIO]:
    """Yield a text file that gets its name when the block ends well; only its owner may read it.

    Raises UsageError where there is something already (unless `replacing` a file) or nothing can be written.
    """
    if os.path.lexists(path) and not (replacing and path.is_file()):
        raise UsageError(f"there is a `{path}` already; name another file, or write `--overwrite` for a file")
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
            os.link(part, path)  # unlike a rename it fails where something came there meanwhile
    except FileExistsError:
        raise UsageError(f"there is a `{path}` now; it was left as it is, and nothing was written") from None
    except OSError as error:
        raise _build_error(path, error) from None
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _build_error(path: Path, error: OSError) -> UsageError:
    return UsageError(f"`{path}` cannot be written ({error.strerror}); name a file in a folder of yours")

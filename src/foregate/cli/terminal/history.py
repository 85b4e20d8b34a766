"""What was typed at the prompt, kept for the next chat: readable by its owner only, and never without end."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

REMEMBERED = 256 * 1024
"""Bytes of it that are kept; the oldest messages go first."""
_BEGINNING = b"\n# "
"""What a message begins with, as prompt_toolkit writes it."""


def prepare_history(file: Path) -> bool:
    """Make the file fit to be read and added to; return False where there can be none.

    It is for its owner only, as what was typed may hold secrets. Where it has grown too long, the beginning is left
    out; a chat that is open beside this one goes on adding to it.
    """
    with suppress(OSError):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "rb") as opened:
            os.fchmod(descriptor, 0o600)
            if (size := os.fstat(descriptor).st_size) > REMEMBERED:
                opened.seek(size - REMEMBERED)
                _, beginning, kept = opened.read(REMEMBERED).partition(_BEGINNING)
                with suppress(OSError):  # one that stays too long can be used all the same
                    _replace_file(file, beginning + kept)
        return True
    return False


def _replace_file(file: Path, content: bytes) -> None:
    """Put a new file in the place of one, so that whoever reads it meanwhile reads a whole one."""
    new = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
        new.replace(file)
    except OSError:
        new.unlink(missing_ok=True)
        raise

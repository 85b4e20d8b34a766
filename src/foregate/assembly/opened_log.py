"""The log of the home, open while a command reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foregate.telemetry.log.sqlite_log import SqliteLog


@contextmanager
def open_home_log() -> Iterator[SqliteLog]:
    """Yield the log of the home, for reading."""
    from foregate.assembly.home import Home

    log = Home.open().open_log()
    try:
        yield log
    finally:
        log.close()

"""The index of a home's log: where it lies, and opening both."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from foregate.assembly.home import Home, open_home_log

if TYPE_CHECKING:
    from foregate.telemetry.log.sqlite_log import SqliteLog
    from foregate.telemetry.queries.audit_index import AuditIndex


@contextmanager
def open_home_index(
    on_session: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[SqliteLog, AuditIndex]]:
    """Yield the log of the home and its index, which has caught up with it; `on_session` is told how far it is."""
    from foregate.telemetry.queries.audit_index import AuditIndex

    with open_home_log() as log, closing(AuditIndex(log, _find_path(log))) as index:
        index.catch_up(on_session)
        yield log, index


def _find_path(log: SqliteLog) -> Path | None:
    return find_index_path(log.path.parent, keeps_out=log.read_only)


def find_index_path(home: Path, environ: Mapping[str, str] = os.environ, *, keeps_out: bool = False) -> Path | None:
    """Return where the index of a home lies: in it, in the person's cache where nothing can be written there (or with
    `keeps_out` may be), or None, which is in memory, where that cannot be either."""
    path = Home(home).index
    if not keeps_out and os.access(path if path.exists() else home, os.W_OK) and os.access(home, os.W_OK):
        return path
    named = environ.get("XDG_CACHE_HOME", "")
    base = Path(named) if named.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".cache"
    folder = base / "foregate" / sha256(os.fsencode(home.resolve())).hexdigest()[:32]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return None
    mine = found.st_uid == os.geteuid() and not found.st_mode & 0o022 and os.access(folder, os.W_OK)
    return folder / path.name if mine else None

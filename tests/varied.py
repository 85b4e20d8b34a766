"""A log of varied work that many tests read and none writes: recorded once, by the real loop."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path

from foregate.telemetry.log.sqlite_log import SqliteLog

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
TURNS, SEED = 80, 9
"""So many turns of these, for in them each sort of change that tests look for turns something."""


@cache
def varied_log() -> tuple[SqliteLog, list[str]]:
    """Return a log of at least TURNS judged turns under several policies, to be read only, and its sessions."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        record = import_module("varied.record").record_log
        with ThreadPoolExecutor(1) as apart:  # whoever is first may be in a loop, and recording runs its own
            names: list[str] = apart.submit(record, Path(folder) / "events.db", TURNS, SEED).result()
    finally:
        sys.path.remove(str(BENCHMARKS))
    return SqliteLog(Path(folder) / "events.db", create=False, read_only=True), names

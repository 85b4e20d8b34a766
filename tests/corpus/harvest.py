"""Collecting the log of every session that a run of the tests makes, in memory and on disk."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog

MOST = 300
"""Logs of one test that are kept; a property test makes thousands that are alike."""
_BLOB = re.compile("[0-9a-f]{64}")
_SUFFIX_OF_TEMPORARY = re.compile(r"\d+$")


@dataclass(frozen=True, slots=True)
class Found:
    """The sessions of one log with their canonical texts, and the test that made it, as `file.py::test`."""

    test: str
    sessions: dict[str, list[str]]


class Collector:
    """A pytest plugin that keeps what memory logs and memory blobs hold, below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._logs, self._count = folder, list[MemoryLog](), 0
        (folder / "logs").mkdir(parents=True)
        (folder / "blobs").mkdir()
        made, put = MemoryLog.__init__, MemoryBlobs.put

        def make(log: MemoryLog) -> None:
            made(log)
            self._logs.append(log)

        def keep(blobs: MemoryBlobs, data: bytes) -> str:
            name = put(blobs, data)
            (folder / "blobs" / name).write_bytes(data)
            return name

        MemoryLog.__init__, MemoryBlobs.put = make, keep  # type: ignore[assignment,method-assign]

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Write down what the logs of a test that has ended hold."""
        logs, self._logs = self._logs[:MOST], []
        for log in logs:
            sessions = {name: [text for _, text, _ in log.lines(name)] for name in _names(log)}
            if any(sessions.values()):
                self._count += 1
                told = json.dumps({"test": nodeid, "sessions": sessions})
                (self._folder / "logs" / f"{self._count:06}.json").write_text(told)


def run_tests(folder: Path, arguments: list[str]) -> int:
    """Run the tests `arguments` name with all temporary files below `folder`; return pytest's exit code."""
    collector = Collector(folder)
    (folder / "tmp").mkdir()
    os.environ["TMPDIR"] = str(folder / "tmp")
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={folder / 't'}", "-o", "tmp_path_retention_policy=all"]
    return pytest.main([*options, *arguments], plugins=[collector])


def logs_in(folder: Path) -> Iterator[Found]:
    """Yield what a run of the tests left below `folder`, each log once and in a stable order."""
    seen = set[str]()
    for found in (*_in_memory(folder), *_on_disk(folder)):
        sessions = {name: texts for name, texts in sorted(found.sessions.items()) if texts}
        digest = hashlib.sha256(json.dumps(sessions).encode()).hexdigest()
        if sessions and digest not in seen:
            seen.add(digest)
            yield Found(found.test, sessions)


def blobs_in(folder: Path) -> dict[str, bytes]:
    """Return the stored bytes a run of the tests left below `folder`, by their SHA-256."""
    files = [path for root in ("blobs", "t") for path in (folder / root).rglob("*") if _BLOB.fullmatch(path.name)]
    return {path.name: path.read_bytes() for path in files if path.is_file() and not path.is_symlink()}


def _in_memory(folder: Path) -> Iterator[Found]:
    for path in sorted((folder / "logs").iterdir()):
        told: dict[str, Any] = json.loads(path.read_text())
        yield Found(told["test"], told["sessions"])


def _on_disk(folder: Path) -> Iterator[Found]:
    """Yield the logs in SQLite files; what a process that was killed wrote is among them."""
    for path in sorted((folder / "t").rglob("*.db")):
        test = _SUFFIX_OF_TEMPORARY.sub("", path.relative_to(folder / "t").parts[0])
        sessions: dict[str, list[str]] = {}
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                for name, text in connection.execute("SELECT session, text FROM events ORDER BY session, seq"):
                    sessions.setdefault(name, []).append(text)
        except sqlite3.Error:
            continue  # a file some test damaged on purpose
        yield Found(test, sessions)


def _names(log: MemoryLog) -> list[str]:
    """Return the sessions of a log; its own method is a coroutine that never waits."""
    try:
        log.sessions().send(None)
    except StopIteration as done:
        return list(done.value)
    raise AssertionError("a memory log does not wait")

"""Which stored bytes the events of a log still need, and freeing the disk of what they do not."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Literal

from msgspec import Struct

from foregate.schemas.event import Event, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import SandboxEnded, ToolStarted
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.task_plan import PlanStepChanged
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.temporary_file import FileBlobs, StoredBlob
from foregate.telemetry.queries.log_place import LogPlace, hold_place, list_running

GRACE = 3600.0
"""Seconds that bytes are kept which no event names, while a session runs: the event that names them may still come."""
# "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"; a longer run of digits is no name.
_NAME = compile_late(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_LISTS = (b"{", b"[")
"""How stored bytes begin that may name others: those of a folder, and of what a sandbox changed, are JSON."""


class BlobCount(Struct, frozen=True):
    """How many stored bytes there are, and how many bytes that is."""

    count: int
    bytes: int

    @classmethod
    def of(cls, blobs: Iterable[StoredBlob]) -> BlobCount:
        """Count some."""
        sizes = [blob.size for blob in blobs]
        return cls(len(sizes), sum(sizes))


def find_names(text: bytes) -> Iterator[str]:
    """Yield everything in a text that could name stored bytes."""
    return (found.decode("ascii") for found in _NAME.findall(text))


def read_texts(place: LogPlace) -> Iterator[bytes]:
    """Yield what is written in the log, piece by piece."""
    with place.open_reader() as reader:
        reader.text_factory = bytes
        known = {name for (name,) in reader.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        for table in ("events", "parts"):
            # Older files have no parts.
            if table.encode() in known:
                yield from (text for (text,) in reader.execute(f"SELECT text FROM {table}"))  # noqa: S608 - two names


def find_used(texts: Iterable[bytes], store: FileBlobs, there: Iterable[str]) -> set[str]:
    """Return which of the stored bytes `there` are named in texts, or by stored bytes that are.

    What merely looks like a name counts as one: nothing that is needed is ever taken for unused.
    """
    known = set(there)
    waiting = list({name for text in texts for name in find_names(text) if name in known})
    used = set(waiting)
    while waiting:
        data = store.read_unchecked(waiting.pop())
        more = {name for name in find_names(data) if name in known} - used if data.startswith(_LISTS) else set[str]()
        used |= more
        waiting += more
    return used


def find_unused(place: LogPlace, store: FileBlobs) -> list[StoredBlob]:
    """Return the stored bytes that nothing in the log names."""
    there = {blob.name: blob for blob in store.list_blobs()}
    used = find_used(read_texts(place), store, there)
    return [blob for name, blob in there.items() if name not in used]


class Collected(Struct, frozen=True):
    """What was removed of stored bytes, and what is kept for now because a session runs that may still name it."""

    removed: BlobCount
    kept: BlobCount


def collect_unused(place: LogPlace, store: FileBlobs, *, is_busy: bool) -> Collected:
    """Remove the stored bytes that nothing names; where a session may run, only those nobody stored of late.

    Whoever stores the same bytes again while this goes on keeps them. Ended in the middle, it has removed some of them.
    """
    before = time.time() - (GRACE if is_busy else 0.0)
    removed: list[StoredBlob] = []
    kept: list[StoredBlob] = []
    for blob in find_unused(place, store):
        (removed if store.remove(blob.name, unless_since=before) else kept).append(blob)
    return Collected(BlobCount.of(removed), BlobCount.of(kept))


class Compaction(Struct, frozen=True):
    """What compacting did: stored bytes removed, and the size of the log's file before and after.

    `running` are sessions that processes have open, with their processes: while there are any the file stays as large
    as it is, because rewriting it would keep them from recording, and what was stored of late is kept.
    """

    blobs: Collected
    before: int
    after: int
    running: dict[str, str]

    @property
    def freed(self) -> int:
        """Bytes that were freed."""
        return self.blobs.removed.bytes + max(0, self.before - self.after)


def compact_log(place: LogPlace, store: FileBlobs) -> Compaction:
    """Remove stored bytes that nothing names, and rewrite the log's file without what is free in it.

    Sessions that run are not disturbed. Ended in the middle, the log is as it was, and some of the bytes are gone that
    nothing names. Raises LogError where another process keeps the same log.
    """
    with hold_place(place):
        before, running = place.size, list_running(place)
        collected = collect_unused(place, store, is_busy=bool(running))
        if not running:
            with (
                sqlite_file.explain_errors("compact", place.events),
                closing(sqlite_file.open_log(place.events, create=False)) as connection,
            ):
                sqlite_file.retry_while_busy(place.events, lambda: connection.execute("VACUUM"))
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return Compaction(collected, before, place.size, running)


Holds = Literal["", "directory", "repository", "changes"]
"""What stored bytes name in their turn: an image of a folder, of a repository, or what a sandbox's changes replace."""


def list_blobs(event: Event) -> Iterator[tuple[str, Holds]]:
    """Yield the hash of all stored bytes that an event names itself, and what these name in their turn."""
    found: list[tuple[str | None, Holds]] = []
    match event.body:
        case NeedRaised(request=request, previews=previews):
            found = [(request, ""), (previews, "")]
        case NeedAnswered(response=response):
            found = [(response, "")]
        case TurnJudged(turn=turn):
            found = [(survey.changes, "") for survey in turn.surveys]
        case ToolStarted(before=before, images=images):
            for image in before:
                found += [(image.image, _HOLDING.get(image.type, "")), (image.attributes, "")]
            found.append((images, "changes"))
        case SandboxEnded(changes=changes):
            found = [(changes, "")]
        case PlanStepChanged(ask=ask) if ask is not None:
            found = [(ask.request, "")]
        case _:
            pass
    return ((hash_, holds) for hash_, holds in found if hash_)


_HOLDING: dict[str, Holds] = {"directory": "directory", "repository": "repository"}

"""Which stored bytes the events of a log still need, and which nobody does."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing

from msgspec import Struct

from foregate.schemas.late_pattern import compile_late
from foregate.telemetry.keeping.place import LogPlace
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.file_blobs import FileBlobs, StoredBlob

GRACE = 3600.0
"""Seconds that bytes are kept which no event names, while a session runs: the event that names them may still come."""
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
    with sqlite_file.explain_errors("read", place.events), closing(sqlite_file.open_reader(place.events)) as reader:
        reader.text_factory = bytes
        known = {name for (name,) in reader.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        for table in ("events", "parts"):
            if table.encode() in known:  # older files have no parts
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

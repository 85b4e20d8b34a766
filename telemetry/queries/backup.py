"""Copying a log that may be in use: all of it as a backup, or some sessions to a home of their own."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from foregate.schemas.errors import LogError
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.sqlite_reader import SqliteReader
from foregate.telemetry.log.temporary_file import FileBlobs, StoredBlob
from foregate.telemetry.queries.log_place import LogPlace, copy_database, hold_place, leave_copy, make_target
from foregate.telemetry.queries.review_log import VerifiedReviews, copy_reviews
from foregate.telemetry.queries.used_blobs import BlobCount, find_used, read_texts
from foregate.telemetry.queries.verify import verify_session

_TOGETHER = 1000
"""Stored bytes that are copied with one sync."""
_COPIED = ("parts", "cuts", "erased")
"""Tables that older files lack, and that events depend on."""


class Backup(Struct, frozen=True):
    """What a copy holds: sessions, events, stored bytes and further files.

    `reviews` are the events of the review log. `damaged` names stored bytes that were changed and are left out, and
    `unverified` the sessions that do not verify in the copy, with why; both are no better where they come from.
    """

    target: str
    sessions: int
    events: int
    blobs: BlobCount
    files: tuple[str, ...]
    damaged: tuple[str, ...]
    unverified: tuple[tuple[str, str], ...]
    reviews: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether everything in it verifies."""
        return not (self.damaged or self.unverified)


def back_up(place: LogPlace, store: FileBlobs, target: Path) -> Backup:
    """Copy a log with all that belongs to it to a new folder `target`, and verify the copy; sessions may go on.

    The copy is one moment of the log. Ended in the middle there is no `target`. Raises LogError where there is
    something at `target`, and where it cannot be written.
    """
    with ExitStack() as held:
        # Where nothing can be written, nobody removes anything either.
        if os.access(place.events.parent, os.W_OK):
            held.enter_context(hold_place(place))
        made = held.enter_context(make_target(target))
        copy_database(place.events, made / place.events.name)
        files = [one.name for one in place.others if _copy_file(one, made)]
        return _finish(place, store, made, target, files, _copy_reviews(place, made))


def copy_sessions(place: LogPlace, store: FileBlobs, sessions: Sequence[str], target: Path) -> Backup:
    """Copy sessions with the stored bytes they need to a new folder `target` that can be read alone; see `back_up`."""
    with make_target(target) as made:
        path = made / place.events.name
        sqlite_file.open_log(path, create=True).close()
        source = f"file:{quote(str(place.events.absolute()))}?{sqlite_file.find_mode(place.events)}"
        with (
            sqlite_file.explain_errors("copy", place.events),
            closing(sqlite3.connect(f"file:{quote(str(path))}", uri=True, isolation_level=None)) as copy,
        ):
            copy.execute("ATTACH ? AS source", (source,))
            with sqlite_file.write_transaction(copy, path):
                _copy_rows(copy, sessions)
            copy.execute("DETACH source")
            leave_copy(copy)
        return _finish(place, store, made, target, [], _copy_reviews(place, made, sessions))


def _copy_rows(copy: sqlite3.Connection, sessions: Iterable[str]) -> None:
    copy.execute("CREATE TEMP TABLE wanted (session TEXT PRIMARY KEY)")
    copy.executemany("INSERT INTO wanted VALUES (?)", [(session,) for session in sessions])
    chosen = "WHERE session IN (SELECT session FROM wanted)"
    copy.execute(f"""INSERT INTO main.leases (session, owner, pid, started, boot, place, fence, seq, hash)
      SELECT session, '', 0, '', '', '', fence, seq, hash FROM source.leases {chosen} ORDER BY number""")  # noqa: S608
    copy.execute(f"""INSERT INTO main.events (session, seq, text, hash)
      SELECT session, seq, text, hash FROM source.events {chosen} ORDER BY session, seq""")  # noqa: S608
    known = {name for (name,) in copy.execute("SELECT name FROM source.sqlite_schema WHERE type = 'table'")}
    if known.issuperset(_COPIED):
        copy.execute(f"INSERT INTO main.cuts SELECT * FROM source.cuts {chosen}")  # noqa: S608
        copy.execute("INSERT INTO main.parts SELECT * FROM source.parts WHERE hash IN (SELECT hash FROM main.cuts)")
        copy.execute(f"INSERT INTO main.erased SELECT * FROM source.erased {chosen}")  # noqa: S608


def _copy_file(source: Path, folder: Path) -> bool:
    if source.is_dir():
        shutil.copytree(source, folder / source.name, symlinks=True)
    elif source.is_file():
        shutil.copy2(source, folder / source.name)
    else:
        return False
    return True


def _copy_reviews(place: LogPlace, made: Path, sessions: Sequence[str] | None = None) -> VerifiedReviews:
    if place.reviews is None:
        return VerifiedReviews()
    return copy_reviews(place.reviews, made / place.reviews.parent.name / place.reviews.name, sessions)


def _finish(
    place: LogPlace, store: FileBlobs, made: Path, target: Path, files: Sequence[str], reviews: VerifiedReviews
) -> Backup:
    """Copy the stored bytes that the copied events name, and verify the copy."""
    copied = LogPlace(made / place.events.name, made / place.blobs.name)
    damaged: list[str] = []
    blobs = _copy_blobs(store, FileBlobs(copied.blobs), copied, damaged)
    reader = SqliteReader(copied.events)
    with closing(sqlite_file.open_reader(copied.events)) as rows:
        counts = rows.execute("SELECT session, seq FROM leases ORDER BY number").fetchall()
    unverified = []
    for session, _ in counts:
        found = verify_session(reader, session)
        if not found.ok:
            unverified.append((session, found.sentence))
    reader.close()
    unverified += [("reviews", reviews.sentence)] if not reviews.ok else []
    begun = [count for _, count in counts if count]
    held = (str(target), len(begun), sum(begun), blobs, tuple(files))
    return Backup(*held, tuple(damaged), tuple(unverified), reviews.events)


def _copy_blobs(store: FileBlobs, copy: FileBlobs, place: LogPlace, damaged: list[str]) -> BlobCount:
    there = {blob.name: blob for blob in store.list_blobs()}
    used = sorted(find_used(read_texts(place), store, there))

    def read_sound(names: Sequence[str]) -> Iterator[bytes]:
        for name in names:
            try:
                yield store.get(name)
            except LogError:
                damaged.append(name)

    for first in range(0, len(used), _TOGETHER):
        copy.put_all(read_sound(used[first : first + _TOGETHER]))
    return BlobCount.of(StoredBlob(name, there[name].size) for name in used if name not in damaged)

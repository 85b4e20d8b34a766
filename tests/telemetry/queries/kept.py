"""A log with stored bytes in a folder, written as sessions write it, for the tests of keeping one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from foregate.schemas.event import Draft
from foregate.schemas.event_body import SessionEnded
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.log.temporary_file import FileBlobs
from foregate.telemetry.queries.log_place import LogPlace
from tests.telemetry.log.test_parts import HASH, began
from tests.telemetry.made import said


class Kept:
    """A log and its stored bytes; `write` adds a session that says what it is told, and that may end."""

    def __init__(self, folder: Path) -> None:
        self.place = LogPlace(folder / "events.db", folder / "blobs")
        self.store = FileBlobs(self.place.blobs)
        SqliteLog(self.place.events).close()

    async def write(self, name: str, *texts: str, ended: str = "") -> None:
        """Write a session; `ended` is when it ended, "" where it has not."""
        with closing(SqliteLog(self.place.events)) as log:
            lease = await log.claim(name, create=True)
            drafts = [began(), *map(said, texts)]
            if ended:
                drafts.append(Draft(SessionEnded(events=len(drafts) + 1), "foregate"))
            await log.append(lease, drafts, policy=HASH, time=ended or "2026-01-01T00:00:00.000000Z")

    def is_stored(self, name: str) -> bool:
        """Whether bytes are stored."""
        return name in {blob.name for blob in self.store.list_blobs()}

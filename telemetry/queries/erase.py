"""Erasing sessions: what they say goes for good, with what only they had stored; their hashes stay."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from msgspec import Struct

from foregate.schemas.errors import SessionHeld, TamperedLog, UsageError
from foregate.schemas.event_body import KINDS
from foregate.schemas.protocols import Erasure
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.log.sqlite_reader import SqliteReader
from foregate.telemetry.log.temporary_file import FileBlobs
from foregate.telemetry.queries.log_place import LogPlace, hold_place, list_running
from foregate.telemetry.queries.review_log import erase_reviews
from foregate.telemetry.queries.used_blobs import Collected, collect_unused
from foregate.telemetry.queries.verify import verify_session


class Erased(Struct, frozen=True):
    """What was erased: sessions, events, what reviewers said of them, and stored bytes that nothing names any more.

    `blobs.kept` are such that stay for now, because a session runs that may still name them; `compact` removes them.
    """

    sessions: tuple[str, ...]
    events: int
    blobs: Collected
    reviews: int = 0


def check_erasable(place: LogPlace, names: Sequence[str], kinds: Sequence[str] = ()) -> int:
    """Return how many events of sessions would be erased, all or those of some kinds.

    Raises SessionHeld where a process has one of them open, UsageError for a kind there is not, and TamperedLog for one
    that does not verify: erasing it would hide what was done to it.
    """
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise UsageError(f"there is no kind of event `{unknown[0][:40]}`; there is {', '.join(KINDS)}")
    running = list_running(place)
    for name in names:
        if name in running:
            raise SessionHeld(f"session `{name}` is open in {running[name]}; close it there before you erase it")
    reader, events = SqliteReader(place.events), 0
    with closing(reader):
        for name in names:
            found = verify_session(reader, name)
            if not found.ok:
                why = f"session `{name}` does not verify, and erasing it would hide that ({found.defects[0].message})"
                raise TamperedLog(f"{why}; leave it, or copy it first and name the others", found.defects[0].seq)
            events += count_erasable(reader, name, kinds)
    return events


def skip_unerasable(place: LogPlace, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return those of some sessions that can be erased, and a sentence on each other one."""
    good, problems = [], []
    for name in names:
        try:
            check_erasable(place, [name])
        except (SessionHeld, TamperedLog) as error:
            problems.append(str(error))
        else:
            good.append(name)
    return good, problems


def count_erasable(reader: SqliteReader, name: str, kinds: Sequence[str]) -> int:
    """Return how many events of a session erasing would take; one that ends it stays."""
    last, _ = reader.head_anchor(name)
    events = (event for event in reader.events(name) if not kinds or event.kind in kinds)
    return sum(event.kind != "session_ended" or event.seq != last for event in events)


async def erase_sessions(
    place: LogPlace, store: FileBlobs, names: Sequence[str], *, kinds: Sequence[str], at: str, by: str, why: str
) -> Erased:
    """Erase sessions, or their events of some kinds, and remove stored bytes that nothing names afterwards.

    Ended in the middle, some of them are erased whole and the others not; `compact` removes the bytes that are left.
    """
    with hold_place(place):
        check_erasable(place, names, kinds)
        with closing(SqliteLog(place.events, create=False)) as log:
            events = sum([await log.erase(name, at=at, by=by, why=why, kinds=kinds) for name in names])
        said = 0 if place.reviews is None or kinds else await erase_reviews(place.reviews, names, Erasure(at, by, why))
        return Erased(tuple(names), events, collect_unused(place, store, is_busy=bool(list_running(place))), said)

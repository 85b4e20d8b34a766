"""The log of reviews as it is copied and erased with the sessions that its labels are about."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from foregate.schemas.event import Event
from foregate.schemas.protocols import Erasure
from foregate.schemas.review import DecisionLabelled, LabelWithdrawn, QueueDrawn, SessionSignedOff
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.erasing import erase_session
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.log.sqlite_reader import SqliteReader
from foregate.telemetry.review.review_log import CHAIN
from foregate.telemetry.review.verify import VerifiedReviews, verify_reviews

_NOT_COPIED = Erasure("", "", "its session was not copied")


def copy_reviews(source: Path, target: Path, sessions: Collection[str] | None = None) -> VerifiedReviews:
    """Copy the review log at `source`, which may be in use, to a new file, and verify the copy.

    With `sessions` only what is said of those stays in the copy: the rest is erased there, and its hashes stay, so that
    the chain holds.
    """
    if not source.exists():
        return VerifiedReviews()
    target.parent.mkdir(mode=0o700)
    target.touch(mode=0o600)
    with (
        sqlite_file.explain_errors("copy", source),
        closing(sqlite_file.open_reader(source)) as reader,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        sqlite_file.retry_while_busy(source, lambda: reader.backup(copy))
        sqlite_file.overwrite_deleted(copy)
        copy.execute("UPDATE leases SET owner = '', pid = 0, started = '', boot = '', place = ''")
        copy.execute("PRAGMA journal_mode=DELETE").fetchone()
        if sessions is not None:
            with closing(SqliteReader(target)) as rows:
                others = [event.seq for event in rows.events(CHAIN) if not _is_only_about(event, sessions)]
            erase_session(copy, target, CHAIN, _NOT_COPIED, seqs=others)
    return verify_reviews(target)


async def erase_reviews(path: Path, sessions: Collection[str], erasure: Erasure) -> int:
    """Erase what the review log at `path` says of some sessions; return how many events that are.

    Queues stay, since they say what others were chosen from: of these sessions they hold nothing but names and hashes.
    """
    if not path.exists():
        return 0
    with closing(SqliteLog(path, create=False)) as log:
        mine = [event.seq for event in log.events(CHAIN) if _is_said_of(event, sessions)]
        if not mine:
            return 0
        return await log.erase(CHAIN, at=erasure.at, by=erasure.by, why=erasure.why, seqs=mine)


def _is_said_of(event: Event, sessions: Collection[str]) -> bool:
    match event.body:
        case DecisionLabelled(ruled=ruled):
            return ruled.session in sessions
        case SessionSignedOff(session=session):
            return session in sessions
        case _:
            return False


def _is_only_about(event: Event, sessions: Collection[str]) -> bool:
    match event.body:
        case QueueDrawn(items=items, canaries=canaries):
            about = [*items, *(canary.ruled for canary in canaries)]
            return all(ruled.session in sessions for ruled in about)
        case LabelWithdrawn():
            return True  # it holds no more than the number of a label
        case _:
            return _is_said_of(event, sessions)

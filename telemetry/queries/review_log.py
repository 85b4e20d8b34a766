"""The review log: labels, queues and sign-offs as events of one chain, recorded, verified, copied and erased."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from foregate.schemas.errors import ForegateError, LogError, SessionHeld, TamperedLog, UsageError
from foregate.schemas.event import Draft, Event
from foregate.schemas.identity import Identity
from foregate.schemas.protocols import Erasure, Readable
from foregate.schemas.review import (
    AnyReviewBody,
    ChangeProposed,
    DecisionLabelled,
    Label,
    LabelWithdrawn,
    QueueDrawn,
    RuledCall,
    SessionSignedOff,
)
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.chain import verify_rows
from foregate.telemetry.log.erasing import erase_session
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.log.sqlite_reader import SqliteReader
from foregate.telemetry.queries.log_place import copy_database
from foregate.telemetry.queries.reviews import GivenLabel, Reviews, list_sample
from foregate.telemetry.queries.rulings import check_ruling, find_ruling, is_there

CHAIN = "reviews"
"""The name of the one chain in the file."""
_READ_ONLY = (
    "this home may only be read, so nothing was written; copy it by `foregate log backup`, and label with "
    "FOREGATE_HOME set to the copy"
)
_PATIENCE, _PAUSE = 10.0, 0.05
"""Seconds to wait while another process writes, and at most between two looks."""


class SaidLabel(NamedTuple):
    """A label as somebody gives it; see DecisionLabelled."""

    label: Label
    comment: str = ""
    seconds: int = 0
    blind: bool = False
    queue: str = ""


class ReviewLog:
    """The review log at `path`; the file is made with the first event. Several processes may share it.

    With `read_only` it is left as it is. Close it when done.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self.read_only = path, read_only
        self._log: SqliteLog | None = None
        self._reviews: Reviews | None = None
        self._erased = 0

    async def read(self) -> Reviews:
        """Return everything the log says by now; raise TamperedLog where its chain does not hold."""
        if self._log is None and not self.path.exists():
            return Reviews()
        log = self._log = self._log or SqliteLog(self.path, read_only=self.read_only)
        if CHAIN not in await log.sessions():
            return Reviews()
        erased = log.list_erased(CHAIN)
        if self._reviews is not None and len(erased) == self._erased:
            for event in log.events(CHAIN, after=self._reviews.seq):
                self._reviews.apply(event)
        else:
            self._reviews, self._erased = read_verified(log, self.path), len(erased)
        return self._reviews

    async def label(self, sessions: Readable, ruled: RuledCall, said: SaidLabel, by: Identity, now: str) -> Event:
        """Record what somebody says of a ruling in the log of sessions, at a UTC time.

        Raises UsageError for a ruling that is not there, and TamperedLog for one that is another now; then nothing is
        written.
        """
        check_ruling(sessions, ruled)
        head = format_head(sessions, ruled.session)
        return await self._record(DecisionLabelled(ruled=ruled, head=head, by=by, **said._asdict()), now)

    async def withdraw(self, given: GivenLabel, by: Identity, now: str) -> Event:
        """Record that a reviewer takes back a label of theirs; raise UsageError for one that is not theirs to take."""
        reviews = await self.read()
        if given.body.by.user != by.user or given.seq in reviews.withdrawn:
            raise UsageError(f"label {given.seq} is not yours, or was taken back already, so nothing was written")
        return await self._record(LabelWithdrawn(label=given.seq, by=by), now)

    async def add_queue(self, queue: QueueDrawn, now: str) -> Event:
        """Record a queue that was drawn."""
        return await self._record(queue, now)

    async def add_proposal(self, proposal: ChangeProposed, now: str) -> Event:
        """Record a path of settings before anything is labelled for it."""
        return await self._record(proposal, now)

    async def sign_off(self, sessions: Readable, session: str, *, by: Identity, now: str, comment: str = "") -> Event:
        """Record that somebody signs a session off as it stands."""
        head = format_head(sessions, session)
        return await self._record(SessionSignedOff(session=session, head=head, by=by, comment=comment), now)

    async def _record(self, body: AnyReviewBody, now: str) -> Event:
        """Append one event durably; whoever writes just now is waited for."""
        if self.read_only:
            raise UsageError(_READ_ONLY)
        log = self._log = self._log or SqliteLog(self.path)
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                lease = await log.claim(CHAIN, create=True, despite_erased=True)
                break
            except SessionHeld:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - so that two do not wait in step
        try:
            events: Sequence[Event] = await log.append(lease, [Draft(body, "person")], policy="", time=now)
            await log.settle(lease)
        finally:
            await log.release(lease)
        return events[0]

    def close(self) -> None:
        """Close the file; doing it twice is harmless."""
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def __enter__(self) -> ReviewLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_verified(log: SqliteReader, path: Path) -> Reviews:
    """Return what the review log at a path says; raise TamperedLog where its chain does not hold to its end."""
    reviews = Reviews()
    try:
        for seq, _, event in verify_rows(log.lines(CHAIN), CHAIN, log.list_erased(CHAIN)):
            reviews.skip(seq) if event is None else reviews.apply(event)
    except TamperedLog as error:
        raise TamperedLog(f"the review log `{path}` is not to be believed: {error}", error.seq) from None
    if reviews.seq < log.head_anchor(CHAIN)[0]:
        raise TamperedLog(f"the review log `{path}` ends too early; restore it from a copy", reviews.seq + 1)
    return reviews


def format_head(log: Readable, session: str) -> str:
    """Return number and hash of a session's last event as `N:HASH`; raise LogError for an unknown session."""
    seq, hash_ = log.head_anchor(session)
    return f"{seq}:{hash_}"


class VerifiedReviews(Struct, frozen=True):
    """What is true of a review log. `head` is number and hash of its last event, `defects` what does not hold.

    Of its `labels` some are `unchecked`, because their session is not in this log, or erased.
    """

    events: int = 0
    erased: int = 0
    labels: int = 0
    unchecked: int = 0
    head: str = ""
    defects: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all of it holds."""
        return not self.defects

    @property
    def sentence(self) -> str:
        """All of it in one sentence."""
        if self.defects:
            return self.defects[0]
        if not self.events:
            return "there is no review log"
        about = [f"{self.events} events", *([f"{self.erased} of them erased"] if self.erased else [])]
        more = f"; {self.unchecked} labels are of sessions that are not here" if self.unchecked else ""
        return f"review log verified: {', '.join(about)}, {self.labels} labels{more}"


def verify_reviews(path: Path, sessions: Readable | None = None) -> VerifiedReviews:
    """Return what is true of the review log at `path`, and of its labels in the log of `sessions` where it is given.

    Raises LogError for a file that is no log of ours.
    """
    if not path.exists():
        return VerifiedReviews()
    with closing(SqliteReader(path)) as log:
        try:
            seq, hash_ = log.head_anchor(CHAIN)
        except LogError:
            # It was made, and nothing written yet.
            return VerifiedReviews()
        erased, head = len(log.list_erased(CHAIN)), f"{seq}:{hash_}"
        try:
            reviews = read_verified(log, path)
        except TamperedLog as error:
            return VerifiedReviews(seq, erased, head=head, defects=(str(error),))
    unchecked, defects = _check_labels(reviews, sessions) if sessions is not None else (0, [])
    return VerifiedReviews(seq, erased, len(reviews.given), unchecked, head, tuple(defects))


def _check_labels(reviews: Reviews, sessions: Readable) -> tuple[int, list[str]]:
    unchecked, defects = 0, []
    for given in reviews.given:
        ruled = given.body.ruled
        if not is_there(sessions, ruled):
            unchecked += 1
            continue
        try:
            found = find_ruling(sessions, ruled.session, ruled.seq, ruled.gate, ruled.call)
        except ForegateError as error:
            defects.append(f"label {given.seq} of the review log cannot be checked: {error}")
            continue
        if found != ruled:
            defects.append(f"label {given.seq} of the review log is about another `{ruled.address}` than the log holds")
    return unchecked, defects


_NOT_COPIED = Erasure("", "", "its session was not copied")


def copy_reviews(source: Path, target: Path, sessions: Collection[str] | None = None) -> VerifiedReviews:
    """Copy the review log at `source`, which may be in use, to a new file, and verify the copy.

    With `sessions` only what is said of those stays in the copy: the rest is erased there, and its hashes stay, so that
    the chain holds.
    """
    if not source.exists():
        return VerifiedReviews()
    target.parent.mkdir(mode=0o700)
    copy_database(source, target)
    if sessions is not None:
        with closing(SqliteReader(target)) as rows, closing(sqlite3.connect(target, isolation_level=None)) as copy:
            sqlite_file.overwrite_deleted(copy)
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
        case QueueDrawn() as body:
            return all(ruled.session in sessions for ruled in list_sample(body))
        case LabelWithdrawn():
            # It holds no more than the number of a label.
            return True
        case _:
            return _is_said_of(event, sessions)

"""The review log: labels, queues and sign-offs as events of one chain, in a file beside that of the sessions."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from foregate.schemas.errors import SessionHeld, TamperedLog, UsageError
from foregate.schemas.event import Draft, Event
from foregate.schemas.identity import Identity
from foregate.schemas.protocols import Readable
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
from foregate.telemetry.log.chain import verify_rows
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.log.sqlite_reader import SqliteReader
from foregate.telemetry.review.reviews import GivenLabel, Reviews
from foregate.telemetry.review.ruling import check_ruling

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

"""Recorded sessions played again under another policy, each through the loop, in parallel, in the order of the log."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from foregate.agent.rehearsing.counts import SessionCounts
from foregate.agent.rehearsing.policies import PolicyAgain
from foregate.agent.rehearsing.rehearse import Rehearsal, rehearse
from foregate.audit.pieces import UNREADABLE, SessionPiece, work_on_sessions
from foregate.gates.replay.assumption import Assumption
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import replace_user_layer
from foregate.schemas.errors import LogError
from foregate.schemas.protocols import Readable


@dataclass
class RehearsalTally:
    """What all sessions came to: those played to their end apart from those that were stopped before it."""

    whole: int = 0
    stopped: int = 0
    now: SessionCounts = field(default_factory=SessionCounts)
    then: SessionCounts = field(default_factory=SessionCounts)
    now_stopped: SessionCounts = field(default_factory=SessionCounts)
    then_stopped: SessionCounts = field(default_factory=SessionCounts)
    assumed: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)

    def add(self, played: Rehearsal) -> None:
        """Take in one session."""
        stopped = bool(played.stopped)
        self.stopped += stopped
        self.whole += not stopped
        (self.now_stopped if stopped else self.now).add(played.now)
        (self.then_stopped if stopped else self.then).add(played.then)
        self.assumed.update(played.assumed)
        self.versions[played.version] += 1


class RehearsalRun:
    """Plays sessions of a log under the user's layer `user`; `tally` is complete once all were played."""

    def __init__(self, log: Readable, user: Layer | None, assumed: Assumption, workers: int = 0) -> None:
        self._log, self._user, self._assumed, self._workers = log, user, assumed, workers
        self.tally = RehearsalTally()

    def play(self, sessions: Sequence[str]) -> Iterator[Rehearsal]:
        """Yield each session as it was played, without the events, in the order given.

        Raises LogError for a log that cannot be read, and PolicyError where a session's workspace file would be refused
        over the user's.
        """
        play = partial(SessionPlayer, user=self._user, assumed=self._assumed)
        for _, played in work_on_sessions(self._log, sessions, play, self._workers, whole=True):
            self.tally.add(played)
            yield played


class SessionPlayer:
    """Plays whole sessions; the policies are kept from one to the next."""

    def __init__(self, log: Readable, user: Layer | None, assumed: Assumption) -> None:
        self._log, self._assumed = log, assumed
        self._policies = PolicyAgain(partial(replace_user_layer, user))

    def __call__(self, piece: SessionPiece) -> Rehearsal:
        """Return a session as it was played; raise LogError where the log cannot be read."""
        events = list(self._log.events(piece.session))
        try:
            played = asyncio.run(rehearse(events, self._policies, self._assumed))
        except UNREADABLE as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            failed = f"session `{piece.session}` cannot be played again ({why})"
            raise LogError(f"{failed}; `foregate audit verify` tells what was changed") from None
        return replace(played, events=())

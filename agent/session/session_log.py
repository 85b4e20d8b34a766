"""The events of a session: recorded, folded, and told to whoever subscribes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import lru_cache

from foregate.agent.session.snapshots import SnapshotTaker
from foregate.evidence.state.lineage import join_events
from foregate.evidence.state.session import SessionState
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import Kind, PolicyChanged, SessionStarted
from foregate.schemas.identity import Identity
from foregate.schemas.protocols import Lease, Log, SnapshotStore
from foregate.telemetry.log.masking import Hidden, mask_draft, may_mask

Clock = Callable[[], str]
_REACH = 1000
"""Events from the end among which the newest task is looked for first."""
Listener = Callable[[Event], None]


def utc_now() -> str:
    """Return the time as UTC text with microseconds."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(seconds)}.{nanoseconds // 1000:06d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    """Return a second as UTC text: many events fall into one."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class Subscription(ExitStack):
    """A listener that is told of events; as a context it ends with the context, else with the session."""

    def end(self) -> None:
        """Tell the listener nothing more; doing it twice is harmless."""
        self.close()


class SessionLog:
    """The events of one session, under its lease. `state` is the fold over them and changes by nothing else.

    `policy_hash` goes into every event; what `hidden` returns then is masked before anything is written. `began_after`
    is the last event of earlier processes, 0 in a new session. `by` is who runs the session here, None where nobody
    says: where that is another one than before, the first event that is recorded here says so.
    """

    def __init__(
        self,
        store: Log,
        lease: Lease,
        state: SessionState,
        policy_hash: str,
        hidden: Callable[[], Hidden],
        clock: Clock,
        by: Identity | None = None,
    ) -> None:
        self.store, self.lease, self.state = store, lease, state
        self.policy_hash, self._hidden, self.clock, self.by = policy_hash, hidden, clock, by
        self.listeners: list[Listener] = []
        self.began_after = state.seq
        self._last = ""
        self._first: list[Draft] = []
        self.before: tuple[str, ...] = ()
        """The sessions that this one continues, oldest first."""
        self.is_further = False
        """Whether it was opened because the last of them had ended."""
        self._snapshots = SnapshotTaker(store, lease, state) if isinstance(store, SnapshotStore) else None
        if self._snapshots is not None:
            # A log of before there were any, or of another version, gets its own now.
            self._snapshots.take_if_due()

    async def record(self, *drafts: Draft) -> Sequence[Event]:
        """Mask what is hidden, append the events, fold them into the state, tell whoever subscribed."""
        if self._first:
            drafts, self._first = (*self._first, *drafts), []
        if drafts and self.is_taken_over and not isinstance(drafts[0].body, SessionStarted):
            # Before all else, for every event names its own.
            at = int(_is_new_policy(drafts[0]))
            drafts = (*drafts[:at], Draft(PolicyChanged(by=self.by), "foregate"), *drafts[at:])
        for at, draft in enumerate(drafts):
            if may_mask(draft) and (masked := mask_draft(draft, self._hidden())) is not draft:
                drafts = (*drafts[:at], masked, *drafts[at + 1 :])
        # A clock may be set back; no event is of an earlier time than the one before it.
        self._last = max(self.clock(), self._last or await self._read_last_time())
        events = await self.store.append(self.lease, drafts, policy=self.policy_hash, time=self._last)
        for event in events:
            self.state.apply(event)
            # One may end its own subscription.
            for listener in tuple(self.listeners):
                listener(event)
        if self._snapshots is not None and self.state.seq >= self._snapshots.due:
            self._snapshots.take_if_due()
        return events

    @property
    def is_taken_over(self) -> bool:
        """Whether somebody else runs the session now than its log says."""
        return self.by is not None and self.state.by != self.by

    @property
    def prepared(self) -> int:
        """How many events would stand before the one that is recorded next."""
        return len(self._first) + self.is_taken_over

    def prepare(self, *drafts: Draft) -> None:
        """Record these before whatever is recorded next, and only then: looking at a session writes nothing."""
        self._first += drafts

    def follow(self, before: Sequence[str], *drafts: Draft) -> None:
        """Begin with these, once something is recorded, a log that continues others."""
        self.before, self.is_further = tuple(before), bool(drafts)
        if drafts:
            self.began_after = 0
            self.prepare(*drafts)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was recorded yet of a session that is to begin with what was prepared."""
        return bool(self._first) and isinstance(self._first[0].body, SessionStarted)

    async def read_joined(self) -> Sequence[Event]:
        """Return the events of the sessions this one continues, and its own; calls of others carry their session.

        Their numbers begin anew with each session.
        """
        earlier = [event for name in self.before for event in await self.store.read(name)]
        own = () if self.is_empty else await self.read()
        return [*join_events(earlier, self.lease.session), *own]

    async def read_last_task(self, kinds: Sequence[Kind]) -> Sequence[Event]:
        """Return the events of some kinds since the newest task began, here or in a session this one continues.

        None where no task began. Calls are named as in `read_joined`.
        """
        names, later = [*self.before, *(() if self.is_empty else (self.lease.session,))], list[Event]()
        for name in reversed(names):
            start = await self._find_last_task(name)
            events = await self.store.read(name, after=max(0, start - 1), kinds=kinds)
            later = [*join_events(events, self.lease.session), *later]
            if start:
                return later
        return ()

    async def _find_last_task(self, name: str) -> int:
        """Return the event that began the newest task of a session, 0 for none; looked for from the end."""
        head, reach = await self.store.head(name), _REACH
        while True:
            after = max(0, head.seq - reach)
            if found := await self.store.read(name, after=after, kinds=("task_started",)):
                return found[-1].seq
            if not after:
                return 0
            reach *= 4

    async def _read_last_time(self) -> str:
        """Return the time of the last event: none is of an earlier one, though clocks may be set back."""
        last = await self.read(after=self.began_after - 1, limit=1) if self.began_after else ()
        return last[0].time if last else ""

    async def settle(self) -> None:
        """Return when everything recorded is durable; raise LogError when it cannot be."""
        await self.store.settle(self.lease)

    async def read(self, *, after: int = 0, limit: int = 0) -> Sequence[Event]:
        """Return the session's events with a number above `after`, in order; `limit` 0 is all."""
        return await self.store.read(self.lease.session, after=after, limit=limit)

    def subscribe(self, listener: Listener) -> Subscription:
        """Tell `listener` of every event recorded from now on, until the subscription ends."""
        self.listeners.append(listener)
        subscription = Subscription()
        subscription.callback(self.listeners.remove, listener)
        return subscription


def _is_new_policy(draft: Draft) -> bool:
    return isinstance(draft.body, PolicyChanged) and draft.body.policy is not None

"""The log of one session: what is recorded is masked, appended, folded into the state and told to subscribers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Self

from foregate.evidence.state.session import SessionState
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import SessionEnded
from foregate.schemas.protocols import Lease, Log
from foregate.telemetry.log.masking import Hidden, mask_draft

Clock = Callable[[], str]
Listener = Callable[[Event], None]


def utc_now() -> str:
    """Return the time as UTC text with microseconds."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(seconds)}.{nanoseconds // 1000:06d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    """Return a second as UTC text: many events fall into one."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class Subscription:
    """A listener that is told of events; as a context it ends with the context, else with the session."""

    def __init__(self, listeners: list[Listener], listener: Listener) -> None:
        self._listeners, self._listener = listeners, listener
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Tell the listener nothing more; doing it twice is harmless."""
        if not self._ended:
            self._ended = True
            self._listeners.remove(self._listener)


class SessionLog:
    """The events of one session, under its lease. `state` is the fold over them and changes by nothing else.

    `policy_hash` goes into every event; `hidden` is masked before anything is written.
    """

    def __init__(
        self,
        store: Log,
        lease: Lease,
        state: SessionState,
        *,
        policy_hash: str,
        hidden: Hidden,
        clock: Clock,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.store, self.lease, self.state, self.clock = store, lease, state, clock
        self._policy_hash, self._hidden = policy_hash, hidden
        self.listeners = list(listeners)
        self.began_after = state.seq
        """The last event of earlier processes, 0 in a new session."""

    @property
    def session(self) -> str:
        """The name of the session."""
        return self.lease.session

    async def record(self, *drafts: Draft) -> Sequence[Event]:
        """Mask what is hidden, append the events, fold them into the state, tell whoever subscribed."""
        kept = [mask_draft(draft, self._hidden) for draft in drafts]
        events = await self.store.append(self.lease, kept, policy=self._policy_hash, time=self.clock())
        for event in events:
            self.state.apply(event)
            for listener in tuple(self.listeners):  # one may end its own subscription
                listener(event)
        return events

    async def settle(self) -> None:
        """Return when everything recorded is durable; raise LogError when it cannot be."""
        await self.store.settle(self.lease)

    async def read(self, *, after: int = 0, limit: int = 0) -> Sequence[Event]:
        """Return the session's events with a number above `after`, in order; `limit` 0 is all."""
        return await self.store.read(self.session, after=after, limit=limit)

    def subscribe(self, listener: Listener) -> Subscription:
        """Tell `listener` of every event recorded from now on, until the subscription ends."""
        self.listeners.append(listener)
        return Subscription(self.listeners, listener)

    async def close(self, *, end: bool = True) -> None:
        """Give the session back; with `end` its log is complete, and says so."""
        if end and not self.state.ended:
            await self.record(Draft(SessionEnded(events=self.state.seq + 1), "foregate"))
        await self.settle()
        await self.store.release(self.lease)

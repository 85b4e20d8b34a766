"""The events of a session: recorded, folded, told to whoever subscribes, and snapshots of the state they lead to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import lru_cache
from weakref import WeakKeyDictionary

from foregate.evidence.state.lineage import begin_further, join_events
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.snapshot import decode_state, encode_state, find_version, is_same_state
from foregate.schemas.errors import LogError, UnreadableSnapshot
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import Kind, PolicyChanged, SessionStarted
from foregate.schemas.identity import Identity
from foregate.schemas.protocols import Lease, Log, Snapshot, SnapshotStore
from foregate.telemetry.diagnostics import get_diagnostics
from foregate.telemetry.log.masking import Hidden, mask_draft, may_mask

LEAST = 1000
"""Events between two snapshots at least: folding that many takes two tenths of a second, and starting one of them."""
_SHARE = 768
"""Bytes of a snapshot for each event until the next one. Packed they are some 300, and an event has 1 to 3 KB, so this
adds little to what is written. A large state is written seldom."""
_READ = 1000
"""Events that are read at once; of all others only what they fold to is in memory."""


_KEPT: WeakKeyDictionary[SessionState, tuple[int, int]] = WeakKeyDictionary()
"""The event and the bytes of the snapshot that a state was read from; it is no part of the state itself."""
Clock = Callable[[], str]
_REACH = 1000
"""Events from the end among which the newest task is looked for first."""
Listener = Callable[[Event], None]


class _OtherVersion(UnreadableSnapshot):
    """The code that wrote a snapshot folds events otherwise, or writes states otherwise."""


class SnapshotTaker:
    """Hands snapshots of a session to its log when it is opened, and every so many events. Nothing waits for one."""

    def __init__(self, store: SnapshotStore, lease: Lease, state: SessionState) -> None:
        self._store, self._lease, self._state = store, lease, state
        # Else it is what this session, yet to begin, continues.
        is_own = state.session == lease.session
        self.due = _find_next(*_KEPT.get(state, (0, 0))) if is_own else LEAST

    def take_if_due(self) -> None:
        """Hand over the state where it is time to; a session can go on without, and the log says so."""
        state = self._state
        if state.seq < self.due or state.session != self._lease.session:
            return
        data = b""
        try:
            data = encode_state(state)
            self._store.keep_snapshot(self._lease, Snapshot(state.seq, state.hash, find_version(), data))
        except ValueError as error:
            self._store.note_unkept(self._lease, state.seq, str(error))
        except LogError as error:
            get_diagnostics().warning("snapshot_not_kept", session=state.session, why=str(error))
        self.due = _find_next(state.seq, len(data))


def _find_next(seq: int, size: int) -> int:
    return seq + max(LEAST, size // _SHARE)


async def fold_session(
    log: Log, session: str, before: Sequence[str] = (), unread: Callable[[str], object] = lambda why: None
) -> SessionState:
    """Return the state that the log of a session leads to: what the newest snapshot holds, and the events after it.

    `before` are the sessions that it continues, oldest first; what it knows of them is in its snapshots. A snapshot
    that cannot be used counts as none, and `unread` is told why, in a sentence. Raises LogError for a session that is
    not there or cannot be read.
    """
    names, state = (*before, session), None
    first = len(names)
    while state is None and first:
        first -= 1
        state = await _resume_fold(log, names[first], unread)
    if state is None:
        state = SessionState()
        await _apply_events(log, names[0], state)
    for name in names[first + 1 :]:
        _KEPT.pop(state, None)
        begin_further(state)
        await _apply_events(log, name, state)
    return state


async def _resume_fold(log: Log, session: str, unread: Callable[[str], object]) -> SessionState | None:
    """Return the state of a session by its snapshot and the events after it, None where it has none that fits."""
    try:
        state = await _read_snapshot(log, session)
        if state is not None:
            await _apply_events(log, session, state, state.seq)
    except UnreadableSnapshot as error:
        get_diagnostics().warning("snapshot_not_read", session=session, why=str(error))
        unread(f"the snapshot of session {session} is not used ({error}); all of its events were read instead")
        return None
    return state


async def read_kept_state(log: Log, session: str) -> SessionState | None:
    """Return the state of a session after the event of its snapshot, None where it has none that can be read."""
    with suppress(UnreadableSnapshot):
        return await _read_snapshot(log, session)
    return None


async def _read_snapshot(log: Log, session: str) -> SessionState | None:
    kept = await log.read_snapshot(session) if isinstance(log, SnapshotStore) else None
    if kept is None:
        return None
    if kept.version != find_version():
        raise _OtherVersion("another version of Foregate wrote it")
    state = await asyncio.to_thread(decode_state, kept.data, session, kept.seq, kept.hash)
    _KEPT[state] = kept.seq, len(kept.data)
    return state


async def _apply_events(log: Log, session: str, state: SessionState, after: int = 0, until: int = 0) -> None:
    """Fold events after a number, up to another, into a state; raise UnreadableSnapshot where they follow another."""
    begin = after
    while events := await log.read(session, after=after, limit=min(_READ, until - after) if until else _READ):
        if after == begin > 0 and events[0].prev != state.hash:
            raise UnreadableSnapshot(f"event {events[0].seq} does not follow it")
        for event in events:
            state.apply(event)
        after = events[-1].seq
        if after == until or len(events) < _READ:
            break


async def find_false_snapshot(log: Log, session: str, before: Sequence[str] = ()) -> int:
    """Return the event after which the snapshot of a session holds what its events do not lead to, 0 for none.

    All events up to it are folded again. `before` are the sessions that it continues, oldest first. Raises
    UnreadableSnapshot for one that is not as it was kept, so that nobody uses it.
    """
    try:
        kept = await _read_snapshot(log, session)
    except _OtherVersion:
        return 0
    if kept is None:
        return 0
    state = SessionState()
    for name in before:
        await _apply_events(log, name, state)
        begin_further(state)
    await _apply_events(log, session, state, until=kept.seq)
    return 0 if is_same_state(kept, state) else kept.seq


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

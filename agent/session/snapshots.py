"""Snapshots of a session as it runs, and the state that a log leads to, from the newest of them on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from weakref import WeakKeyDictionary

from foregate.evidence.state.lineage import begin_further
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.snapshot import decode_state, encode_state, find_version, is_same_state
from foregate.schemas.errors import LogError, UnreadableSnapshot
from foregate.schemas.protocols import Lease, Log, Snapshot, SnapshotStore
from foregate.telemetry.diagnostics import get_diagnostics

LEAST = 1000
"""Events between two snapshots at least: folding that many takes two tenths of a second, and starting one of them."""
_SHARE = 768
"""Bytes of a snapshot for each event until the next one. Packed they are some 300, and an event has 1 to 3 KB, so this
adds little to what is written. A large state is written seldom."""
_READ = 1000
"""Events that are read at once; of all others only what they fold to is in memory."""


_KEPT: WeakKeyDictionary[SessionState, tuple[int, int]] = WeakKeyDictionary()
"""The event and the bytes of the snapshot that a state was read from; it is no part of the state itself."""


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

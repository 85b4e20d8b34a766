"""Snapshots of a session as it runs, and the state that a log leads to, from the newest of them on."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from foregate.evidence.state.session import SessionState
from foregate.evidence.state.snapshot import UnreadableSnapshot, decode_state, encode_state, find_version
from foregate.schemas.errors import LogError
from foregate.schemas.protocols import Lease, Log, Snapshot, SnapshotStore
from foregate.telemetry.diagnostics import get_diagnostics

_LEAST = 500
"""Events between two snapshots at least: folding that many takes a tenth of a second, about as long as starting."""
_SHARE = 1024
"""Bytes of a snapshot for each event until the next one. An event is some 3 KB, so this adds little to what is written,
and a state that is dear to write is written seldom."""
_READ = 1000
"""Events that are read at once; of all others only what they fold to is in memory."""


_KEPT: WeakKeyDictionary[SessionState, tuple[int, int]] = WeakKeyDictionary()
"""The event and the bytes of the snapshot that a state was read from; it is no part of the state itself."""


class SnapshotTaker:
    """Hands snapshots of a session to its log every so many events, between two responses. Nothing waits for one."""

    def __init__(self, store: SnapshotStore, lease: Lease, state: SessionState) -> None:
        self._store, self._lease, self._state = store, lease, state
        self._due = _find_next(*_KEPT.get(state, (0, 0)))

    def take_if_due(self) -> None:
        """Hand over the state where it is time to, and no response is in hand; a session can go on without."""
        state = self._state
        if state.seq < self._due or state.open is not None:
            return
        size = 0
        try:
            data = encode_state(state)
            size = len(data)
            self._store.keep_snapshot(self._lease, Snapshot(state.seq, state.hash, find_version(), data))
        except (LogError, ValueError) as error:
            get_diagnostics().warning("snapshot_not_kept", why=str(error))
        self._due = _find_next(state.seq, size)


def _find_next(seq: int, size: int) -> int:
    return seq + max(_LEAST, size // _SHARE)


async def fold_session(log: Log, session: str) -> SessionState:
    """Return the state that the log of a session leads to: what the newest snapshot holds, and the events after it.

    A snapshot that cannot be read, or is not of the event it names, counts as none. Raises LogError for a session that
    is not there or cannot be read.
    """
    state = await _read_snapshot(log, session)
    kept = state.seq
    while events := await log.read(session, after=state.seq, limit=_READ):
        if kept and kept == state.seq and events[0].prev != state.hash:
            state, kept = SessionState(), 0
            continue
        for event in events:
            state.apply(event)
        if len(events) < _READ:
            break
    return state


async def _read_snapshot(log: Log, session: str) -> SessionState:
    kept = await log.read_snapshot(session) if isinstance(log, SnapshotStore) else None
    if kept is None or kept.version != find_version():
        return SessionState()
    try:
        state = await asyncio.to_thread(decode_state, kept.data, session, kept.seq, kept.hash)
    except UnreadableSnapshot as error:
        get_diagnostics().warning("snapshot_not_read", session=session, why=str(error))
        return SessionState()
    _KEPT[state] = kept.seq, len(kept.data)
    return state

"""The snapshots of sessions in the log's file: derived, packed, and bound to an event of their session's chain."""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path

from foregate.schemas.protocols import Lease, Snapshot
from foregate.telemetry.log import sqlite_file

READ = """SELECT snapshots.seq, snapshots.hash, version, data FROM snapshots
  JOIN events ON events.session = snapshots.session AND events.seq = snapshots.seq AND events.hash = snapshots.hash
  WHERE snapshots.session = ? AND events.text != ''"""
_KEEP = """INSERT OR REPLACE INTO snapshots (session, seq, hash, version, data)
  SELECT session, ?, ?, ?, ? FROM leases WHERE session = ? AND owner = ? AND fence = ?"""
_LARGEST = 512 * 1024 * 1024
"""Bytes of a snapshot that is unpacked; no state is nearly as large."""
_FASTEST = 1
"""The level at which zlib packs: texts shrink to about a third at a hundred megabytes a second."""


def write_snapshot(connection: sqlite3.Connection, path: Path, lease: Lease, snapshot: Snapshot) -> None:
    """Write the snapshot of a session that the lease is still for, in a transaction of its own.

    It need not survive a power cut, so no disk is waited for.
    """
    data = zlib.compress(snapshot.data, _FASTEST)
    values = snapshot.seq, snapshot.hash, snapshot.version, data, lease.session, lease.owner, lease.fence
    connection.execute("PRAGMA synchronous=NORMAL")
    try:
        with sqlite_file.write_transaction(connection, path):
            connection.execute(_KEEP, values)
    finally:
        connection.execute("PRAGMA synchronous=FULL")


def unpack_snapshot(seq: int, hash_: str, version: str, data: bytes) -> Snapshot | None:
    """Return the snapshot of a row, None where it is damaged."""
    unpacking = zlib.decompressobj()
    try:
        whole = unpacking.decompress(data, _LARGEST)
    except zlib.error:
        return None
    return Snapshot(seq, hash_, version, whole) if unpacking.eof else None

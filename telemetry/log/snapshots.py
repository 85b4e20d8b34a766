"""The snapshots of sessions in the log's file: derived, packed, and bound to an event of their session's chain.

What is read from one decides as the events do, and no chain covers it. So each carries a code that only who holds the
key beside the log can make, and any other counts as none: one that somebody changed or put there, and those of a log
that came from elsewhere.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
import stat
import zlib
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from foregate.schemas.errors import UnreadableSnapshot
from foregate.schemas.protocols import Lease, Snapshot
from foregate.schemas.session_link import find_root
from foregate.telemetry.log import sqlite_file
from foregate.telemetry.log.temporary_file import create_temporary, open_folder

READ = """SELECT snapshots.seq, snapshots.hash, version, data FROM snapshots
  JOIN events ON events.session = snapshots.session AND events.seq = snapshots.seq AND events.hash = snapshots.hash
  WHERE snapshots.session = ? AND events.text != ''"""
_KEEP = """INSERT OR REPLACE INTO snapshots (session, seq, hash, version, data)
  SELECT session, ?, ?, ?, ? FROM leases WHERE session = ? AND owner = ? AND fence = ?"""
_ERASED = "SELECT 1 FROM erased WHERE session = ? LIMIT 1"
_UNKEPT = "INSERT OR REPLACE INTO snapshots (session, seq, hash, version, data) VALUES (?, ?, '', ?, x'')"
_FORGET = "DELETE FROM snapshots WHERE session = ?"
_NOT = "\n"
"""Before the name of a session: a row that says why no newer snapshot could be kept of it. No session is named so."""
_LONGEST_REASON = 500
_LARGEST = 512 * 1024 * 1024
"""Bytes of a snapshot that is unpacked; no state is nearly as large."""
_FASTEST = 1
"""The level at which zlib packs: texts shrink to about a third at a hundred megabytes a second."""
_CODE = 32
"""Bytes of a key, and of the code in front of what is packed."""


class Unkept(Struct, frozen=True):
    """A session without a snapshot after event `seq`, and why none could be kept."""

    session: str
    seq: int
    why: str


def write_snapshot(connection: sqlite3.Connection, path: Path, lease: Lease, snapshot: Snapshot) -> None:
    """Write the snapshot of a session that the lease is still for, in a transaction of its own.

    It need not survive a power cut, so no disk is waited for. The one before is overwritten in the file, so that
    nothing that is erased later stays in it. Raises OSError where no key can be made for it.
    """
    packed = zlib.compress(snapshot.data, _FASTEST)
    code = _compute_code(read_key(path) or make_key(path), lease.session, snapshot, packed)
    about = snapshot.seq, snapshot.hash, snapshot.version, code + packed
    connection.execute("PRAGMA synchronous=NORMAL")
    try:
        with sqlite_file.write_transaction(connection, path):
            if not _follows_erased(connection, lease.session):
                connection.execute(_KEEP, (*about, lease.session, lease.owner, lease.fence))
            connection.execute(_FORGET, (_NOT + lease.session,))
    finally:
        connection.execute("PRAGMA synchronous=FULL")


def forget_snapshots(connection: sqlite3.Connection, session: str) -> None:
    """Delete the snapshots of a session and of those that belong with it: what follows it knows what it said."""
    for name in _list_family(connection, session):
        connection.executemany(_FORGET, [(name,), (_NOT + name,)])


def write_unkept(connection: sqlite3.Connection, path: Path, found: Unkept) -> None:
    """Write why a session has no newer snapshot, in a transaction of its own; whoever keeps one takes it away again."""
    with sqlite_file.write_transaction(connection, path):
        connection.execute(_UNKEPT, (_NOT + found.session, found.seq, found.why[:_LONGEST_REASON]))


def read_unkept(connection: sqlite3.Connection) -> list[Unkept]:
    """Return which sessions have no newer snapshot, and why."""
    if not sqlite_file.has_table(connection, "snapshots"):
        return []
    query = "SELECT substr(session, 2), seq, version FROM snapshots WHERE data = x'' ORDER BY session"
    return [Unkept(*row) for row in connection.execute(query)]


def _follows_erased(connection: sqlite3.Connection, session: str) -> bool:
    """Whether events were erased that the state of a session may still hold, as where it was read before that."""
    if not connection.execute("SELECT 1 FROM erased LIMIT 1").fetchone():
        return False
    return any(connection.execute(_ERASED, (name,)).fetchone() for name in _list_family(connection, session))


def _list_family(connection: sqlite3.Connection, session: str) -> list[str]:
    """Return a session with those that belong with it: tasks it handed on, what it follows and what follows it."""
    known = {name for (name,) in connection.execute("SELECT session FROM leases")}
    root = find_root(session, known)
    return [name for name in known if find_root(name, known) == root]


def unpack_snapshot(path: Path, session: str, seq: int, hash_: str, version: str, data: bytes) -> Snapshot | None:
    """Return the snapshot of a row of the log at `path`, None where no key tells whether it is as it was kept.

    Raises UnreadableSnapshot where the key says that it is not.
    """
    if not (key := read_key(path)):
        return None
    code, packed = data[:_CODE], data[_CODE:]
    found = Snapshot(seq, hash_, version, b"")
    if not hmac.compare_digest(_compute_code(key, session, found, packed), code):
        raise UnreadableSnapshot("it is not as this log kept it")
    unpacking = zlib.decompressobj()
    try:
        whole = unpacking.decompress(packed, _LARGEST)
    except zlib.error as error:
        raise UnreadableSnapshot(f"it cannot be unpacked: {error}") from None
    if not unpacking.eof:
        raise UnreadableSnapshot("it is not whole, or too large to be one")
    return replace(found, data=whole)


def _compute_code(key: bytes, session: str, snapshot: Snapshot, packed: bytes) -> bytes:
    about = "\0".join((session, str(snapshot.seq), snapshot.hash, snapshot.version))
    code = hmac.new(key, f"{len(about)}\0{about}".encode("utf-8", "surrogatepass"), "sha256")
    code.update(packed)
    return code.digest()


def find_key_file(path: Path) -> Path:
    """Return where the key of the log at `path` is kept."""
    return path.with_name(f"{path.name}.key")


def read_key(path: Path) -> bytes:
    """Return the key of the log at `path`, nothing without one that only its owner can read and change."""
    with suppress(OSError):
        file = os.open(find_key_file(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            about = os.fstat(file)
            is_own = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o077
            key = os.read(file, _CODE + 1) if is_own else b""
        finally:
            os.close(file)
        return key if len(key) == _CODE else b""
    return b""


def make_key(path: Path) -> bytes:
    """Make a key, in the place of one that is none; of two processes that do so at once one keeps its own in vain."""
    key, place = secrets.token_bytes(_CODE), find_key_file(path)
    with open_folder(place.parent) as folder:
        file, name = create_temporary(folder, ".new-", 0o600)
        try:
            os.write(file, key)
            os.rename(name, place.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise
        finally:
            os.close(file)
    return key

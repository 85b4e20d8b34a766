"""Checkpoints: signed lines in a file outside the home, each over the heads of all sessions of a log at one moment.

Heads and events stand in hash trees after RFC 9162: one hash for a list of values, and a short path that proves a
value stands in it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct, field

from foregate.schemas import strict_json
from foregate.schemas.errors import LogError, TamperedLog, UsageError
from foregate.schemas.event import GENESIS
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json
from foregate.telemetry.log import chain
from foregate.telemetry.queries.signing import SigningKey, is_signed

FORMAT = 1
_MEANING = b"foregate checkpoint 1\n"
"""What stands before the bytes that are signed, so that no signature is one of anything else."""


class SessionHead(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A session at a checkpoint: its name, its last event's number and hash, and the root over the hashes of all its
    events. What is signed is over such a list of four, as canonical JSON."""

    session: str
    seq: int
    hash: str
    tree: str

    @property
    def leaf(self) -> bytes:
        """The head as it stands in the tree of all sessions."""
        return hash_leaf(strict_json.encode_record(self.to_json()))

    def to_json(self) -> list[Json]:
        """Return the head as a list."""
        return [self.session, self.seq, self.hash, self.tree]


class CheckpointBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What is signed: the number of the checkpoint in its file, UTC time, who wrote it and with which public key.

    `prev` is the SHA-256 of the line before, `changed` that of the heads listed with it, `root` the root over the heads
    of all `sessions`, in the order of their names.
    """

    v: int
    number: int
    time: str
    by: str
    key: str
    prev: str
    changed: str
    root: str
    sessions: int

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that the signature is over."""
        return _MEANING + strict_json.encode_record(strict_json.dump(self))


class SignedCheckpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the file: `heads` are of sessions that are new or went on since the line before."""

    body: CheckpointBody
    signature: str
    heads: tuple[SessionHead, ...]

    @property
    def line(self) -> bytes:
        """The checkpoint as it stands in the file."""
        heads: Json = [one.to_json() for one in self.heads]
        whole: dict[str, Json] = {"body": strict_json.dump(self.body), "signature": self.signature, "heads": heads}
        return strict_json.encode_record(whole)


class CheckpointFile(Struct):
    """The checkpoints of a file, all of them checked: their order, their signatures, and what they say of each other.

    `heads` are the newest of each session; `known` lists by session all its heads, the oldest first.
    """

    path: Path
    key: str = ""
    newest: SignedCheckpoint | None = None
    heads: dict[str, SessionHead] = field(default_factory=dict)
    known: dict[str, list[tuple[int, SessionHead]]] = field(default_factory=dict)
    last_hash: str = GENESIS

    @classmethod
    def read(cls, path: Path, public: str = "") -> CheckpointFile:
        """Return the checkpoints of a file, signed with the key `public`, or with whichever one key signed them all.

        Raises UsageError, one sentence, for a file that is none, was changed, or is signed by another.
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UsageError(f"the checkpoints `{path}` cannot be read ({error.strerror}); check the path") from None
        return cls.of(path, data, public)

    @classmethod
    def of(cls, path: Path, data: bytes, public: str = "") -> CheckpointFile:
        """Return the checkpoints that such a file holds; see `read`."""
        found = cls(path, public)
        *lines, rest = data.split(b"\n")
        for number, line in enumerate(lines, start=1):
            found._add(number, line)
        if rest:
            advice = "if you know why, take what is there of it away, and those before it hold"
            raise UsageError(f"the last line of `{path}` is no checkpoint, or only half of one; {advice}")
        if found.newest is None:
            raise UsageError(f"`{path}` holds no checkpoint; `foregate audit checkpoint --file` writes one")
        body = found.newest.body
        if (body.root, body.sessions) != (find_heads_root(found.heads), len(found.heads)):
            raise found._refuse(len(lines), "its heads are not those that were signed")
        return found

    def find_gone(self, there: Collection[str]) -> list[str]:
        """Return the sessions of the checkpoints that are not `there`; raise TamperedLog where none of them is."""
        gone = sorted(name for name in self.heads if name not in there)
        if gone and len(gone) == len(self.heads):
            told = f"none of the {len(gone)} sessions of the checkpoints `{self.path}` is in this log"
            raise TamperedLog(f"{told}: they are those of another log, or all of it was taken away", 1)
        return gone

    def list_anchors(self) -> dict[str, list[tuple[int, str]]]:
        """Return by session the number and the hash of each event that was its last at some checkpoint."""
        return {name: [(head.seq, head.hash) for _, head in known] for name, known in self.known.items()}

    def _add(self, number: int, line: bytes) -> None:
        try:
            one = msgspec.json.decode(line, type=SignedCheckpoint)
        except (msgspec.DecodeError, ValueError):
            raise self._refuse(number, "it is no checkpoint of a version that this Foregate reads") from None
        body = one.body
        if body.v != FORMAT or one.line != line:
            raise self._refuse(number, "it is no checkpoint of a version that this Foregate reads")
        self.key = self.key or body.key
        if body.key != self.key:
            raise self._refuse(number, f"it is signed with the key {body.key[:64]}, and not with {self.key[:64]}")
        if not is_signed(body.key, one.signature, body.signed_bytes):
            raise self._refuse(number, "its signature does not fit: it was changed, or not signed by that key")
        if (body.number, body.prev) != (number, self.last_hash):
            raise self._refuse(number, "it does not follow the one before it: a line is missing or was moved")
        if body.changed != hash_heads(one.heads):
            raise self._refuse(number, "its heads are not those that were signed")
        for head in one.heads:
            self.heads[head.session] = head
            self.known.setdefault(head.session, []).append((number, head))
        self.newest, self.last_hash = one, strict_json.sha256(line)

    def _refuse(self, number: int, why: str) -> UsageError:
        return UsageError(f"checkpoint {number} of `{self.path}` does not hold: {why}; nothing is proven by it")


def hash_heads(heads: Sequence[SessionHead]) -> str:
    """Return the SHA-256 over heads as they are listed in a line."""
    return strict_json.sha256(strict_json.encode_record([one.to_json() for one in heads]))


def find_heads_root(heads: Mapping[str, SessionHead]) -> str:
    """Return the root over the heads of all sessions, in the order of their names."""
    return find_root(heads[name].leaf for name in sorted(heads)).hex()


def write_checkpoint(
    log: Readable, sessions: Sequence[str], path: Path, key: SigningKey, *, time: str, by: str
) -> SignedCheckpoint:
    """Append a checkpoint over sessions, and those of earlier lines, to a file; return it once it is on disk.

    Raises UsageError where there is no session, or where the file's own checkpoints do not hold or are by another key,
    and TamperedLog where a session's chain does not hold, or is not the one an earlier checkpoint was over: nothing is
    written then, and no file made.
    """
    if not sessions:
        raise UsageError("there are no sessions yet that a checkpoint could be over; `foregate chat` begins one")
    try:
        stream = _open_to_append(path, 0)
    except FileNotFoundError:
        made = _build_next(log, sessions, CheckpointFile(path), key, time, by)
        with _open_to_append(path, os.O_CREAT | os.O_EXCL) as new:
            _append(new, made)
        return made
    with stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        data = stream.read()
        known = CheckpointFile.of(path, data, key.public) if data else CheckpointFile(path)
        made = _build_next(log, sessions, known, key, time, by)
        _append(stream, made)
    return made


def _open_to_append(path: Path, flags: int) -> IO[bytes]:
    """Return a file opened so that a file system may allow it nothing but to grow; see `write_checkpoint`."""
    try:
        return os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o644), "r+b")
    except FileNotFoundError:
        if not flags:
            raise
        raise UsageError(f"`{path}` cannot be written (there is no such folder); name another file") from None
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written ({error.strerror}); name another file") from None


def _build_next(
    log: Readable, sessions: Sequence[str], known: CheckpointFile, key: SigningKey, time: str, by: str
) -> SignedCheckpoint:
    """Return the checkpoint that follows those of a file."""
    if gone := known.find_gone({*sessions, *list_sessions(log, known.heads)}):
        advice = "`foregate audit verify --checkpoint` tells more"
        raise TamperedLog(f"session `{gone[0]}` is gone, over which there is a checkpoint; {advice}", 1)
    changed = tuple(find_changed_heads(log, sessions, known.heads))
    heads = {**known.heads, **{one.session: one for one in changed}}
    number = known.newest.body.number + 1 if known.newest is not None else 1
    said = (FORMAT, number, time, by, key.public, known.last_hash)
    body = CheckpointBody(*said, hash_heads(changed), find_heads_root(heads), len(heads))
    return SignedCheckpoint(body, key.sign(body.signed_bytes), changed)


def _append(stream: IO[bytes], made: SignedCheckpoint) -> None:
    stream.write(made.line + b"\n")
    stream.flush()
    os.fsync(stream.fileno())


def list_sessions(log: Readable, names: Mapping[str, SessionHead]) -> Iterator[str]:
    """Yield those of some sessions that a log has."""
    for name in names:
        try:
            log.head_anchor(name)
        except LogError:
            continue
        yield name


def find_changed_heads(
    log: Readable, sessions: Sequence[str], known: Mapping[str, SessionHead]
) -> Iterator[SessionHead]:
    """Yield the heads of sessions that are new or went on since they were `known`; those of no events have none."""
    for name in sorted(sessions):
        before = known.get(name)
        if before is not None and log.head_anchor(name) == (before.seq, before.hash):
            continue
        hashes = read_hashes(log, name)
        if before is not None and (len(hashes) < before.seq or hashes[before.seq - 1] != before.hash):
            advice = "`foregate audit verify --checkpoint` tells more"
            raise TamperedLog(f"session `{name}` is not the one that a checkpoint was over; {advice}", before.seq)
        if hashes:
            yield SessionHead(name, len(hashes), hashes[-1], find_tree(hashes))


def read_hashes(log: Readable, session: str) -> list[str]:
    """Return the hashes of a session's events; raise TamperedLog where its chain does not hold."""
    return [hash_ for _, hash_, _ in chain.verify_rows(log.lines(session), session, log.list_erased(session))]


def find_tree(hashes: Sequence[str]) -> str:
    """Return the root over the hashes of a session's events."""
    return find_root(hash_leaf(bytes.fromhex(one)) for one in hashes).hex()


def build_proof(log: Readable, session: str, seq: int, checkpoints: CheckpointFile) -> dict[str, Json]:
    """Return the proof of an event, by the newest checkpoint: what `verify_proof.py` reads, as JSON.

    It takes a few hashes, however long the session is, and says nothing of other events and sessions. Raises UsageError
    for an event that no checkpoint is over, and TamperedLog where the log is not the one that was signed.
    """
    head = checkpoints.heads.get(session)
    if head is None or seq > head.seq:
        advice = "`foregate audit checkpoint` writes one that is"
        raise UsageError(f"no checkpoint of `{checkpoints.path}` is over event {seq} of `{session}`; {advice}")
    if seq < 1:
        raise UsageError(f"there is no event {seq}; a session's first is 1")
    hashes = read_hashes(log, session)[: head.seq]
    if len(hashes) < head.seq or hashes[-1] != head.hash or find_tree(hashes) != head.tree:
        advice = "`foregate audit verify --checkpoint` tells more"
        raise TamperedLog(f"session `{session}` is not the one that the checkpoint is over; {advice}", seq)
    assert checkpoints.newest is not None
    names = sorted(checkpoints.heads)
    index = names.index(session)
    leaves = [checkpoints.heads[name].leaf for name in names]
    events = [hash_leaf(bytes.fromhex(one)) for one in hashes]
    text = next(text for number, text, _ in log.lines(session) if number == seq)
    return {
        "v": 1,
        "kind": "foregate proof",
        "session": session,
        "seq": seq,
        "event": text,
        "hash": hashes[seq - 1],
        "events": [one.hex() for one in find_path(events, seq - 1)],
        "head": head.to_json(),
        "sessions": {"index": index, "path": [one.hex() for one in find_path(leaves, index)]},
        "checkpoint": {"body": strict_json.dump(checkpoints.newest.body), "signature": checkpoints.newest.signature},
    }


EMPTY = sha256(b"").digest()
"""The root over nothing."""


def hash_leaf(data: bytes) -> bytes:
    """Return the hash of a value as it stands in a tree."""
    return sha256(b"\0" + data).digest()


def find_root(leaves: Iterable[bytes]) -> bytes:
    """Return the root over leaves."""
    level = list(leaves)
    while len(level) > 1:
        level = _climb(level)
    return level[0] if level else EMPTY


def find_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the hashes beside the way from a leaf to the root, from the bottom; raise IndexError for no such leaf."""
    level, path = list(leaves), list[bytes]()
    if not 0 <= index < len(level):
        raise IndexError(index)
    while len(level) > 1:
        beside = index ^ 1
        # What stands alone at the end of a level goes up as it is.
        if beside < len(level):
            path.append(level[beside])
        level, index = _climb(level), index // 2
    return path


def _climb(level: list[bytes]) -> list[bytes]:
    """Return the level above."""
    pairs = zip(level[::2], level[1::2], strict=False)
    above = [sha256(b"\1" + left + right).digest() for left, right in pairs]
    return above if len(level) % 2 == 0 else [*above, level[-1]]

"""The recorded logs on disk: which there are, their lines as the log stored them, and the bytes they refer to.

`sessions.xz` holds the sound recordings. A line `= NAME` begins one; every further line is an event of its sessions,
exactly the bytes the log hashed, a parent before its children. `damaged.xz` holds logs somebody tampered with: behind
`= NAME` each line is a JSON list of an event's number, text and hash as stored, and the last one the number and the
hash of the head that was noted apart. `blobs.json.xz` holds, by SHA-256 and in base64, what the events refer to.
`expected.xz` holds the texts that the readings of each recording gave when they were last written down, as JSON, and
`expected.txt` a line with the SHA-256 of each, so that a change of them can be reviewed. Nothing here knows anything of
Foregate.
"""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SESSIONS, DAMAGED, BLOBS = HERE / "sessions.xz", HERE / "damaged.xz", HERE / "blobs.json.xz"
EXPECTED, DIGESTS = HERE / "expected.xz", HERE / "expected.txt"

NO_HASH = "0" * 64
_BEGINS = b"= "

Row = tuple[int, str, str]
"""The number, the canonical text and the hash of an event, as a log stores them."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The sessions of one recorded log: by name their rows, and by name the head that the log noted apart."""

    name: str
    sessions: Mapping[str, Sequence[Row]]
    heads: Mapping[str, tuple[int, str]]


def sha256(data: bytes) -> str:
    """Return the SHA-256 of `data` in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


@cache
def read_sessions() -> Mapping[str, Recorded]:
    """Return the sound recordings by name."""
    return {name: recording_of(name, lines) for name, lines in _parts(SESSIONS).items()}


@cache
def read_damaged() -> Mapping[str, Recorded]:
    """Return the damaged logs by name; each holds one session."""
    found = {}
    for name, lines in _parts(DAMAGED).items():
        *rows, (seq, stored, session) = map(json.loads, lines)
        found[name] = Recorded(name, {session: [(n, text, hash_) for n, text, hash_ in rows]}, {session: (seq, stored)})
    return found


@cache
def read_blobs() -> Mapping[str, bytes]:
    """Return the stored bytes by their SHA-256."""
    found = json.loads(lzma.decompress(BLOBS.read_bytes()))
    return {name: base64.b64decode(text) for name, text in found.items()}


@cache
def read_expected() -> Mapping[str, Mapping[str, str]]:
    """Return what each reading of each recording gave, by the recording's and the reading's name."""
    found: dict[str, dict[str, str]] = json.loads(lzma.decompress(EXPECTED.read_bytes()))
    return found


def recording_of(name: str, lines: Iterable[bytes]) -> Recorded:
    """Return the recording with these canonical lines, each event's hash being that of its line."""
    rows: dict[str, list[Row]] = {}
    for line in lines:
        event = json.loads(line)
        rows.setdefault(event["session"], []).append(
            (event["seq"], line.decode("utf-8", "surrogatepass"), sha256(line))
        )
    heads = {session: (found[-1][0], found[-1][2]) for session, found in rows.items()}
    return Recorded(name, rows, heads)


def write_sessions(found: Iterable[Recorded]) -> None:
    """Write the sound recordings."""
    _write(
        SESSIONS,
        {one.name: [_bytes(text) for rows in one.sessions.values() for _, text, _ in rows] for one in found},
    )


def write_damaged(found: Iterable[Recorded]) -> None:
    """Write the damaged logs."""
    parts = {}
    for one in found:
        ((session, rows),) = one.sessions.items()
        parts[one.name] = [json.dumps(row).encode("ascii") for row in [*rows, (*one.heads[session], session)]]
    _write(DAMAGED, parts)


def write_blobs(blobs: Mapping[str, bytes]) -> None:
    """Write the bytes that recordings refer to."""
    found = {name: base64.b64encode(data).decode("ascii") for name, data in sorted(blobs.items())}
    BLOBS.write_bytes(_compressed(json.dumps(found, indent=0).encode("ascii")))


def write_expected(found: Mapping[str, Mapping[str, str]]) -> None:
    """Write what each reading of each recording gives."""
    EXPECTED.write_bytes(_compressed(json.dumps(found, indent=0).encode("ascii")))
    digests = [
        f"{sha256(text.encode())[:16]} {name} {reading}\n"
        for name, texts in found.items()
        for reading, text in texts.items()
    ]
    DIGESTS.write_text("".join(digests), "ascii")


def _parts(path: Path) -> dict[str, list[bytes]]:
    parts: dict[str, list[bytes]] = {}
    for line in lzma.decompress(path.read_bytes()).split(b"\n")[:-1]:
        if line.startswith(_BEGINS):
            name = line.removeprefix(_BEGINS).decode("ascii")
            parts[name] = []
        else:
            parts[name].append(line)
    return parts


def _write(path: Path, parts: Mapping[str, Sequence[bytes]]) -> None:
    lines = [line for name, found in parts.items() for line in (_BEGINS + name.encode("ascii"), *found)]
    path.write_bytes(_compressed(b"".join(line + b"\n" for line in lines)))


def _compressed(data: bytes) -> bytes:
    return lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

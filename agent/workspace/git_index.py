"""What git's index says is staged: the same whatever it notes about the files on disk, which `git status` renews."""

from __future__ import annotations

import hashlib
import struct

from foregate.schemas import strict_json

_STAT = 40
"""Bytes of an entry that note a file on disk; the mode among them, at 24, is staged."""
_EXTENDED = 0x4000
_NAME = 0x0FFF
_SPLIT = b"link"


def is_index(path: str) -> bool:
    """Whether a path of the workspace is one of an index of git."""
    parts = path.split("/")
    return parts[-1] == "index" and ".git" in parts[:-1]


def hash_index(data: bytes) -> str:
    """Return the SHA-256 over the entries of an index, "" for bytes that are none, or one that is split in two."""
    for width in (20, 32):
        try:
            entries, end = _read_entries(data, width)
        except (struct.error, ValueError):
            continue
        if _is_end(data, end, width):
            return strict_json.sha256(entries)
    return ""


def _read_entries(data: bytes, width: int) -> tuple[bytes, int]:
    """Return the entries without what they note of files on disk, and where they end."""
    mark, version, count = struct.unpack_from(">4sII", data)
    if mark != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index")
    at, name, found = 12, b"", []
    for _ in range(count):
        start, mode = at, data[at + 24 : at + 28]
        at += _STAT + width
        (flags,) = struct.unpack_from(">H", data, at)
        fixed = data[start + _STAT : at] + struct.pack(">H", flags & ~_NAME)
        at += 2
        if flags & _EXTENDED:
            fixed, at = fixed + data[at : at + 2], at + 2
        if version == 4:
            cut, at = _read_number(data, at)
            name = name[: len(name) - cut]
        else:
            name = b""
        end = data.index(b"\0", at)
        name += data[at:end]
        at = end + 1 if version == 4 else start + (end - start + 8) // 8 * 8
        found.append(mode + fixed + name + b"\0")
    return b"".join(found), at


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number as git writes how much of a name is cut, and where it ends."""
    byte = data[at]
    number = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        number = (number + 1 << 7) | (byte & 0x7F)
    return number, at + 1


def _is_end(data: bytes, at: int, width: int) -> bool:
    """Whether from here on there are extensions, none that names another index, and the right sum, or none."""
    body = len(data) - width
    while at < body:
        if len(data) < at + 8 or data[at : at + 4] == _SPLIT:
            return False
        at += 8 + struct.unpack_from(">I", data, at + 4)[0]
    total = hashlib.new({20: "sha1", 32: "sha256"}[width], data[:body], usedforsecurity=False)
    return at == body and data[body:] in (bytes(width), total.digest())

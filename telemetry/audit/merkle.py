"""Hash trees after RFC 9162: one hash for a list of values, and a short path that proves a value stands in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

EMPTY = sha256(b"").digest()
"""The root over nothing."""


def hash_leaf(data: bytes) -> bytes:
    """Return the hash of a value as it stands in a tree."""
    return sha256(b"\0" + data).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    """Return the hash over two parts of a tree."""
    return sha256(b"\1" + left + right).digest()


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
        if beside < len(level):  # what stands alone at the end of a level goes up as it is
            path.append(level[beside])
        level, index = _climb(level), index // 2
    return path


def _climb(level: list[bytes]) -> list[bytes]:
    """Return the level above."""
    pairs = zip(level[::2], level[1::2], strict=False)
    above = [sha256(b"\1" + left + right).digest() for left, right in pairs]
    return above if len(level) % 2 == 0 else [*above, level[-1]]

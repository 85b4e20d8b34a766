"""The newest of many reads, within a number and a size; taking one in costs the same however many are kept."""

from __future__ import annotations

from typing import Protocol, TypeVar

from foregate.schemas.strict_json import sha256


class KeptRead(Protocol):
    """What has arguments and a content, whose characters together are its size."""

    arguments: str
    content: str


R = TypeVar("R", bound=KeptRead)


def keep_newest(
    reads: dict[str, R], read: R, same: tuple[str, ...], size: int, *, most: int, largest: int
) -> tuple[int, bool]:
    """Keep a read as the newest, or an earlier one with the same `same`; the oldest stands first.

    `size` are the characters of all that are kept, at most `largest`; there are at most `most` of them. Return the
    characters of all that are kept now, and whether older ones had to go.
    """
    name = sha256(repr(same).encode())
    if (known := reads.pop(name, None)) is not None:
        reads[name] = known
        return size, False
    reads[name] = read
    size += len(read.arguments) + len(read.content)
    had_to_go = False
    while size > largest or len(reads) > most:
        oldest = reads.pop(next(iter(reads)))
        size -= len(oldest.arguments) + len(oldest.content)
        had_to_go = True
    return size, had_to_go

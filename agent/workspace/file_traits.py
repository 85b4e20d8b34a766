"""What a file has beside its content: owner, extended attributes, permission bits, time of change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct

from foregate.agent.sandbox.attributes import read_attributes

_OWNERS = ("user.", "system.posix_acl_")
"""How the names of attributes begin that the owner of a file sets."""
OWNER = "owner"
"""How the owner of a file is named among what cannot be kept."""
HARD_LINKS = "hard links"
"""How a file's other names are named among what cannot be kept."""


class FileTraits(Struct, frozen=True):
    """What a file is to have beside its content; None, and a time of 0, change nothing.

    `mode` are the permission bits, `modified` is in nanoseconds, `attributes` are all extended attributes, `owner` is
    user and group.
    """

    mode: int | None = None
    modified: int = 0
    attributes: Mapping[str, bytes] | None = None
    owner: tuple[int, int] | None = None


AS_THERE = FileTraits()
"""Everything stays."""


def set_traits(file: int, traits: FileTraits) -> list[str]:
    """Give an open file what another one had; return the names of what it did not take.

    A time it does not take is not named. Raises OSError for permission bits.
    """
    now, lost = os.fstat(file), []
    if traits.owner is not None and traits.owner != (now.st_uid, now.st_gid):
        try:
            os.fchown(file, *traits.owner)
        except PermissionError:
            lost.append(OWNER)
    if traits.attributes is not None:
        lost += _set_attributes(file, traits.attributes)
    if traits.mode is not None:
        os.fchmod(file, traits.mode)
    if traits.modified:
        with suppress(OSError):
            os.utime(file, ns=(traits.modified, traits.modified))
    return lost


def _set_attributes(file: int, attributes: Mapping[str, bytes]) -> list[str]:
    """Give an open file these attributes, and none but theirs that are its owner's; return those it did not take."""
    there, lost = read_attributes(file), []
    for name in there.keys() - attributes.keys():
        # An access list came from the folder.
        if name.startswith(_OWNERS):
            with suppress(OSError):
                os.removexattr(file, name)
    for name in sorted(attributes):
        if there.get(name) != attributes[name]:
            try:
                os.setxattr(file, name, attributes[name])
            except OSError:
                lost.append(name)
    return lost

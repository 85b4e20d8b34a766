"""What a file has beside its content: owner, extended attributes, permission bits, time of change."""

from __future__ import annotations

import base64
import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from foregate.schemas import strict_json
from foregate.schemas.strict_json import get_text

_OWNERS = ("user.", "system.posix_acl_")
"""How the names of attributes begin that the owner of a file sets."""
_MACHINES = ("user.overlay.", "trusted.overlay.", "security.selinux", "security.ima", "security.evm")
"""How the names of attributes begin that say how a file lies on this machine, and not what it is."""
OWNER = "owner"
"""How the owner of a file is named among what cannot be kept."""
HARD_LINKS = "hard links"
"""How a file's other names are named among what cannot be kept."""


@dataclass(frozen=True, slots=True)
class FileTraits:
    """What a file is to have beside its content; what is None, and a time of 0, is left as it is.

    `mode` are the permission bits, `modified` is in nanoseconds, `attributes` are all extended attributes, `owner` is
    user and group.
    """

    mode: int | None = None
    modified: int = 0
    attributes: Mapping[str, bytes] | None = None
    owner: tuple[int, int] | None = None


AS_THERE = FileTraits()
"""Everything stays as it is."""


def read_attributes(file: int) -> dict[str, bytes]:
    """Return the extended attributes of an open file or folder, among them its access list and its capabilities.

    One whose name is no text is left out; where the file system has none there are none. Raises OSError.
    """
    if not hasattr(os, "listxattr"):
        return {}
    found = {}
    try:
        for name in os.listxattr(file):
            with suppress(OSError):  # it went meanwhile, or is not ours to read
                found[name] = os.getxattr(file, name)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
    return {name: value for name, value in found.items() if strict_json.scrub(name) == name}


def choose_attributes(attributes: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the extended attributes that belong to a file wherever it lies."""
    return {name: value for name, value in attributes.items() if not name.startswith(_MACHINES)}


def hash_attributes(attributes: Mapping[str, bytes]) -> str:
    """Return the SHA-256 over the extended attributes that belong to a file wherever it lies, "" where it has none."""
    chosen = choose_attributes(attributes)
    return strict_json.sha256(pack_attributes(chosen)) if chosen else ""


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
        if name.startswith(_OWNERS):  # an access list came from the folder
            with suppress(OSError):
                os.removexattr(file, name)
    for name in sorted(attributes):
        if there.get(name) != attributes[name]:
            try:
                os.setxattr(file, name, attributes[name])
            except OSError:
                lost.append(name)
    return lost


def pack_attributes(attributes: Mapping[str, bytes]) -> bytes:
    """Return extended attributes as bytes to store."""
    return strict_json.canonical({name: base64.b64encode(value).decode() for name, value in attributes.items()})


def unpack_attributes(data: bytes) -> dict[str, bytes]:
    """Return the extended attributes that were packed; raise InvalidJson for anything else."""
    found = strict_json.parse(data.decode(), max_bytes=len(data) + 1)
    return {name: base64.b64decode(get_text(found, name)) for name in strict_json.as_object(found)}

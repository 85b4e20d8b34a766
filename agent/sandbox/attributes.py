"""The extended attributes of a file: read, chosen, hashed and packed in one way, wherever the file lies."""

from __future__ import annotations

import base64
import errno
import os
from collections.abc import Mapping
from contextlib import suppress

from foregate.schemas import strict_json
from foregate.schemas.strict_json import get_text

_MACHINES = ("user.overlay.", "trusted.overlay.", "security.selinux", "security.ima", "security.evm")
"""How the names of attributes begin that say how a file lies on this machine, and not what it is."""


def read_attributes(file: int) -> dict[str, bytes]:
    """Return the extended attributes of an open file or folder, among them its access list and its capabilities.

    One whose name is no text is left out; where the file system has none there are none. Raises OSError.
    """
    if not hasattr(os, "listxattr"):
        return {}
    found = {}
    try:
        for name in os.listxattr(file):
            # It went meanwhile, or is not ours to read.
            with suppress(OSError):
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


def pack_attributes(attributes: Mapping[str, bytes]) -> bytes:
    """Return extended attributes as bytes to store."""
    return strict_json.canonical({name: base64.b64encode(value).decode() for name, value in attributes.items()})


def unpack_attributes(data: bytes) -> dict[str, bytes]:
    """Return the extended attributes that were packed; raise InvalidJson for anything else."""
    found = strict_json.parse(data.decode(), max_bytes=len(data) + 1)
    return {name: base64.b64decode(get_text(found, name)) for name in strict_json.as_object(found)}

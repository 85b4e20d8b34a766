"""The outcome of a program in a sandbox: the paths it changed there, and what it wanted of the world outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.noun import Noun
from foregate.schemas.tool_spec import Effect

PathKind = Literal["", "file", "directory", "link", "other"]
"""What lies at a path; "" is nothing."""

Refusal = Literal["", "leads_out", "special", "privileged", "unseen"]
"""Why a change is never applied: a link out of the workspace, a device, pipe or socket, or a file with setuid, setgid
or capabilities. So is the loss of a folder that holds what the sandbox could not see."""


class PathState(Struct, frozen=True, forbid_unknown_fields=True):
    """What lies at a path: its kind, the SHA-256 of a file's content or of a link's target, permission bits, size.

    `traits` is the SHA-256 over its extended attributes, "" where it has none. `owner` is the numbers of its user and
    group, `0:0`, "" for nothing.
    """

    kind: PathKind = ""
    hash: str = ""
    mode: int = 0
    size: int = 0
    traits: str = ""
    owner: str = ""


class PathChange(Struct, frozen=True, forbid_unknown_fields=True):
    """A path that is not as it was: relative to the workspace, what a program did to it, and both states.

    `effect` is create, edit or delete. A folder that is deleted comes after what was in it, one that is created before
    what is in it.
    """

    path: str
    effect: Effect
    before: PathState
    after: PathState
    refused: Refusal = ""


class SandboxedChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """What a program changed in its sandbox and nowhere else yet, in the order in which it can be applied.

    `upper` is the folder that holds the new contents, "" where they are in the workspace already. `left_out` says in
    words what else it made, which is never applied.
    """

    changes: tuple[PathChange, ...] = ()
    upper: str = ""
    left_out: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """Return the changes as the bytes they are recorded in."""
        return strict_json.encode_record([strict_json.dump(change) for change in self.changes])


def decode_changes(data: bytes) -> tuple[PathChange, ...]:
    """Return the changes that such bytes hold; raise InvalidJson for others."""
    # As many as `commands.sandbox.files`.
    read = strict_json.parse(data.decode(), max_bytes=len(data) + 1)
    return tuple(strict_json.load(PathChange, change) for change in (read if isinstance(read, list) else [read]))


_DONE = {"create": "created", "edit": "edited", "delete": "deleted"}


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return how many paths were changed, by effect, in words: `created 2, edited 1`."""
    return ", ".join(f"{word} {counts[effect]}" for effect, word in _DONE.items() if counts.get(effect))


AccessKind = Literal["network", "port", "socket", "device", "folder"]


class Access(Noun, frozen=True, order=True):
    """Something outside a sandbox that a program wants: written `kind:name`, or `network` alone for any host.

    `name` is a host, a loopback port, or the path of a Unix socket, of a device, or of a folder.
    """

    kind: AccessKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind

"""A thing in the world a call reads or changes; compared exactly, never by substring."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class ResourceKind(StrEnum):
    """The kinds of things; `process` is a command's argument vector."""

    FILE = "file"
    DIRECTORY = "directory"
    REPOSITORY = "repository"
    URL = "url"
    HOST = "host"
    PROCESS = "process"
    MESSAGE = "message"
    OTHER = "other"


class Resource(Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """A kind and a canonical id: a path relative to the workspace, a URL, an argument vector as shell words."""

    kind: ResourceKind
    id: str

    def __str__(self) -> str:
        return self.id

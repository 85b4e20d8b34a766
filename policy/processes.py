"""The sections of the policy about other processes: those that are served, those that serve, and those in a sandbox."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from foregate.policy.section import Count, PolicySection

Port = Annotated[int, Field(ge=1, le=65535)]


class Serving(PolicySection):
    """Serving this process's tools to other agents. Times in seconds, sizes in bytes."""

    approvals: Literal["deny", "caller"]
    max_agents: Annotated[int, Field(ge=1)]
    max_waiting: Annotated[int, Field(ge=1)]
    max_message: Annotated[int, Field(ge=65536)]
    max_deadline: Annotated[int, Field(ge=1)]
    ping: Annotated[int, Field(ge=1)]
    away: Count


class Runtime(PolicySection):
    """Tools that run in another process. Times in seconds but for `backoff` (milliseconds), sizes in bytes."""

    declarations: Literal["believe", "raise"]
    timeout: Annotated[int, Field(ge=1)]
    patience: Count
    backoff: Annotated[int, Field(ge=1)]
    max_tools: Annotated[int, Field(ge=1)]
    max_message: Annotated[int, Field(ge=65536)]
    ping: Annotated[int, Field(ge=1)]


class SnapshotBounds(PolicySection):
    """Of how much copies are kept while a command works in place: paths, and bytes of files."""

    files: Annotated[int, Field(ge=1)]
    bytes: Annotated[int, Field(ge=1)]


class SandboxLimits(PolicySection):
    """What a command in a sandbox may use, in bytes: `memory` of each process, `scratch` for all its own files.

    `written` bytes and `files` are what it may write of the workspace; `kept` is how many seconds that is kept while
    nobody says whether it may be applied. Of what lies outside: `sent` in bytes to all hosts, `connections` at a time,
    `ports` at which `network` reaches a host. `snapshot` bounds what is kept where a command works in the workspace
    itself.
    """

    memory: Annotated[int, Field(ge=1)]
    processes: Annotated[int, Field(ge=1)]
    scratch: Annotated[int, Field(ge=65536)]
    written: Annotated[int, Field(ge=65536)]
    files: Annotated[int, Field(ge=1)]
    kept: Annotated[int, Field(ge=60)]
    sent: Annotated[int, Field(ge=1)]
    connections: Annotated[int, Field(ge=1)]
    ports: Annotated[tuple[Port, ...], Field(min_length=1, max_length=64)]
    snapshot: SnapshotBounds


class Confinement(PolicySection):
    """The least a machine must be able to hold commands with, so that reads and work go in a sandbox unasked."""

    read: Literal["limited", "full"]
    work: Literal["limited", "full"]


class ReadEntry(PolicySection):
    """What makes a command that usually reads a change. `work` are options and words that do, `patterns` are searched
    for in its words (RE2). More operands than `operands` do, but beside one of `beside`. `valued` are options whose
    value is the next word. The first `texts` operands name no files, where none of `instead` gives them."""

    work: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    operands: Count | None = None
    beside: tuple[str, ...] = ()
    valued: tuple[str, ...] = ()
    texts: Count | None = None
    instead: tuple[str, ...] = ()

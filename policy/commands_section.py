"""The section of the policy about commands: what they are taken for, and what those in a sandbox may use."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from foregate.policy.section import Count, PolicySection

Port = Annotated[int, Field(ge=1, le=65535)]


class CommandEntry(PolicySection):
    """A program that only observes when all its options are listed. `operands` False refuses further words. `beneath`
    are those of the options with which it reads what is in folders. `--` among the options tells that the program takes
    whatever follows it for operands."""

    options: tuple[str, ...]
    valued: tuple[str, ...] = ()
    beneath: tuple[str, ...] = ()
    subcommands: tuple[str, ...] = ()
    operands: bool = True


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


class Confinement(PolicySection):
    """The least a machine must be able to hold commands with, so that reads and work go in a sandbox unasked."""

    read: Literal["limited", "full"]
    work: Literal["limited", "full"]


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


class Commands(PolicySection):
    """Which commands only observe, how long one may run (seconds), and the environment it sees. `reads`, `about` and
    `confinement` hold where there are sandboxes, `read_only` elsewhere. `access` is what commands want of
    the world outside one, `deletes` are those that delete, `checks` those that test, check or build a project,
    `installs` those that install. `wrappers` run other commands, and of them `completes` add words they read. `code`
    are those that run texts, with patterns (RE2) of what in one starts a program. `open_ended` are leading words of
    commands that may go on to run anything, `further_words` those behind which a permission may leave plain words open,
    `scripts` those that run what a file says without its being named. `execute_command` is the tool behind the tag of
    that name."""

    read_only: dict[str, CommandEntry]
    reads: dict[str, ReadEntry]
    about: tuple[str, ...]
    access: dict[str, tuple[str, ...]]
    confinement: Confinement
    deletes: tuple[str, ...]
    checks: tuple[str, ...]
    installs: tuple[str, ...]
    wrappers: tuple[str, ...]
    completes: tuple[str, ...]
    code: dict[str, tuple[str, ...]]
    open_ended: tuple[str, ...]
    further_words: tuple[str, ...]
    scripts: dict[str, tuple[str, ...]]
    execute_command: Literal["run_command", "run_shell"]
    timeout: Annotated[int, Field(ge=1)]
    environment: tuple[str, ...]
    sandbox: SandboxLimits

"""What a sandbox is made of and what runs in it, as data: the two values that cross to the process that enters it."""

from __future__ import annotations

from typing import Literal, TypedDict


class Limits(TypedDict, total=False):
    """Bounds of a call; one that is left out does not hold.

    `processes` counts threads as well, and holds root from Linux 6.14, there never fewer than 301. `memory_bytes` and
    `processor_seconds` hold for each process by itself. Time on the clock is the guard's to watch.
    """

    memory_bytes: int
    processes: int
    file_bytes: int
    open_files: int
    processor_seconds: int


class Plan(TypedDict):
    """A sandbox. Every path is absolute and resolved, but for the keys of `links`; a path is text as in `os`.

    - `workspace`: the folder shown at its own path, read-only but where `writable` is true.
    - `kept`: paths in a writable workspace that stay read-only, those of them that are there.
    - `home`: where an empty HOME lies; it is not the workspace and not in it.
    - `folders`: what else is shown read-only at its own path; one that is gone is left out. Inside the workspace
      none counts.
    - `links`: links outside of all folders, and where they lead (`/bin` to `usr/bin`).
    - `masks`: paths that do not exist (in the workspace) or cannot be opened (elsewhere, and in a workspace that
      holds another file system's mount).
    - `scratch_bytes`: how much `/tmp`, HOME and `/dev/shm` hold together.
    - `limits`: see `Limits`.
    - `network`: "none" is the only one there is.
    """

    workspace: str
    writable: bool
    kept: list[str]
    home: str
    folders: list[str]
    links: dict[str, str]
    masks: list[str]
    scratch_bytes: int
    limits: Limits
    network: Literal["none"]


class Command(TypedDict):
    """What runs: a program by its resolved path, argument vector, whole environment, and the folder it starts in."""

    program: str
    argv: list[str]
    environment: dict[str, str]
    folder: str


class Failure(TypedDict):
    """A step into the sandbox that failed: its short name, the errno (0 for none), and one sentence."""

    step: str
    number: int
    sentence: str

"""What a sandbox is made of and what runs in it, as data: the two values that cross to the process that enters it."""

from __future__ import annotations

from typing import Literal, TypedDict

HoldingTier = Literal["full", "limited"]
"""How a sandbox is held: by namespaces, or by Landlock and a filter of system calls alone."""


class ProcessLimits(TypedDict, total=False):
    """Bounds of a call; one that is left out does not hold.

    `processes` counts threads as well, and holds root from Linux 6.14, there never fewer than 301. `memory_bytes` and
    `processor_seconds` hold for each process by itself. Time on the clock is the caller's to watch. `written_bytes` and
    `written_files` hold for all that is written to `upper` and to the stores of `layers`.
    """

    memory_bytes: int
    processes: int
    file_bytes: int
    open_files: int
    processor_seconds: int
    written_bytes: int
    written_files: int


class GivenAccess(TypedDict):
    """What a sandbox is given of the world outside. Every path is absolute and resolved.

    - `network`: "none"; "hosts", the hosts of `hosts` by HTTPS; or "open", any host that has a public address.
    - `hosts`: names in lower case.
    - `remote_ports`: the ports at which hosts are reached.
    - `ports`: ports of this machine's loopback network, each shown as the same port of 127.0.0.1.
    - `sockets`: Unix sockets of streams, each shown at its own path.
    - `devices`: character devices, shown at their own paths.
    - `folders`: folders outside of the workspace, shown writable at their own paths.
    - `sent_bytes`: how much all connections to hosts may send together.
    - `connections`: how many connections there may be at the same time.
    """

    network: Literal["none", "hosts", "open"]
    hosts: list[str]
    remote_ports: list[int]
    ports: list[int]
    sockets: list[str]
    devices: list[str]
    folders: list[str]
    sent_bytes: int
    connections: int


def build_no_access() -> GivenAccess:
    """Return the access of a sandbox that is given none."""
    return GivenAccess(
        network="none",
        hosts=[],
        remote_ports=[],
        ports=[],
        sockets=[],
        devices=[],
        folders=[],
        sent_bytes=0,
        connections=0,
    )


class SandboxPlan(TypedDict):
    """A sandbox. Every path is absolute and resolved, but for the keys of `links`; a path is text as in `os`.

    - `tier`: how it is held. With `limited` a writable workspace has neither masks nor `kept`, and there is no `upper`,
      no `layers` and no `access`.
    - `workspace`: the folder shown at its own path, read-only but where `writable` is true or `upper` is given.
    - `upper`: a folder of the machine that takes what is written to the workspace, which itself stays unchanged; "" for
      none. Its `upper` and `work` are made where they are missing, and it is closed to other users.
    - `caches`: where `upper` is given, a folder with what earlier sandboxes left, laid over the workspace and under
      `upper`; "" for none. See `keep_folders`.
    - `layers`: folders beside the workspace that are shown writable, each with the folder of the machine that takes and
      keeps what is written to it. Inside the workspace none counts.
    - `kept`: paths in a writable workspace that stay read-only, those of them that are there.
    - `home`: where an empty HOME lies; it is not the workspace and not in it. In `limited` a command with this HOME is
      given one in the private folder.
    - `scratch`: in which folder a private one is made, in `limited`.
    - `folders`: what else is shown read-only at its own path, also files; one that is gone is left out. Inside the
      workspace none counts.
    - `links`: links outside of all folders, and where they lead (`/bin` to `usr/bin`).
    - `masks`: paths that do not exist (in the workspace) or cannot be opened (elsewhere, in a workspace that holds
      another file system's mount, and in `limited`).
    - `scratch_bytes`: how much `/tmp`, HOME and `/dev/shm` hold together.
    - `limits`: see `Limits`.
    - `access`: see `GivenAccess`.
    """

    tier: HoldingTier
    workspace: str
    writable: bool
    upper: str
    caches: str
    layers: dict[str, str]
    kept: list[str]
    home: str
    scratch: str
    folders: list[str]
    links: dict[str, str]
    masks: list[str]
    scratch_bytes: int
    limits: ProcessLimits
    access: GivenAccess


class SandboxCommand(TypedDict):
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

"""The tool that lists what runs: this user's processes, and the commands of those that work in the workspace."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.tools import builtin_tool
from foregate.agent.tools.tool import Arguments, Tool, cap_text
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.strict_json import get_text
from foregate.schemas.tool_call import EvidenceKind, EvidenceRecord, Origin, ToolResult, Trust
from foregate.schemas.tool_spec import Resource, ResourceKind

_PROC = Path("/proc")
_READ = 4096
"""Bytes of a command line that are read."""
_LONGEST = 200
"""Characters of a command line that are shown."""


class RunningProcess(Struct, frozen=True):
    """One running process. `words` is empty for one that works elsewhere: its arguments are nobody's business here."""

    pid: int
    parent: int
    state: str
    name: str
    words: tuple[str, ...] = ()

    @property
    def display_line(self) -> str:
        text = " ".join(strict_json.scrub(shlex.join(self.words) if self.words else self.name).split())
        return f"{text[:_LONGEST]}..." if len(text) > _LONGEST else text


def list_processes(workspace: Workspace, policy: Policy) -> Tool:
    def run(arguments: Arguments) -> ToolResult:
        wanted = get_text(arguments, "filter", "").casefold()
        most = min(builtin_tool.get_count(arguments, "limit", policy.files.max_entries), policy.files.max_entries)
        found = [process for process in list_running(workspace) if wanted in process.display_line.casefold()]
        lines = [
            f"{process.pid}  {process.parent}  {process.state}  {process.display_line}" for process in found[:most]
        ]
        if len(found) > most:
            lines.append(f"there is more: only {most} of {len(found)} processes are listed; use a filter")
        seen = dict.fromkeys(strict_json.scrub(shlex.join(process.words)) for process in found[:most] if process.words)
        records = [
            EvidenceRecord(
                EvidenceKind.PROCESS_STATE, Resource(ResourceKind.PROCESS, line), "", Trust.INFERRED, Origin.EXTERNAL
            )
            for line in seen
        ]
        said = ["pid  parent  state  command", *lines] if lines else ["no such process"]
        text, dropped = cap_text("\n".join(said), policy.files.max_output)
        return ToolResult(True, text, tuple(records), origin=Origin.EXTERNAL, dropped=dropped)

    return builtin_tool.build_tool(
        "list_processes",
        "List the user's running processes: number, parent, state and name; of those that run in the workspace the "
        "whole command.",
        {
            "filter": {
                "type": "string",
                "description": "Only processes whose line contains this; case does not matter.",
            },
            "limit": builtin_tool.describe_count("Processes to list at most."),
        },
        None,
        [],
        run,
    )


def list_running(workspace: Workspace) -> Iterator[RunningProcess]:
    """Yield this user's processes by number; raise WorkspaceError where the system does not show them."""
    if not (_PROC / "self/stat").exists():
        raise WorkspaceError("this system does not show its processes under /proc; use run_command with `ps`")
    own = list_own_line()
    for pid in sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()):
        try:
            if (_PROC / str(pid)).stat().st_uid == os.geteuid():
                found = read_process(pid, workspace)
                yield replace(found, words=()) if pid in own else found
        except (OSError, ValueError):
            continue


def list_own_line() -> list[int]:
    """Return Foregate's process and those above it; a shell's command line may hold the secrets it set for Foregate."""
    own = [os.getpid()]
    with suppress(OSError, ValueError):
        while own[-1] > 1:
            own.append(int((_PROC / str(own[-1]) / "stat").read_bytes().rpartition(b")")[2].split()[1]))
    return own


def read_process(pid: int, workspace: Workspace) -> RunningProcess:
    """Return what the system says of a process; raise OSError or ValueError when it has gone."""
    folder = _PROC / str(pid)
    before, _, after = (folder / "stat").read_bytes().rpartition(b")")
    state, parent = after.split()[:2]
    name = before.partition(b"(")[2].decode("utf-8", "replace")
    return RunningProcess(pid, int(parent), state.decode(), name, read_words(folder, workspace))


def read_words(folder: Path, workspace: Workspace) -> tuple[str, ...]:
    """Return the command line of a process that works in the workspace, nothing for any other."""
    try:
        if not (folder / "cwd").readlink().is_relative_to(workspace.root):
            return ()
        with (folder / "cmdline").open("rb") as stream:
            data = stream.read(_READ)
    except OSError:
        return ()
    return tuple(word.decode("utf-8", "replace") for word in data.rstrip(b"\0").split(b"\0")) if data else ()

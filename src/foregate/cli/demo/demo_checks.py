"""What the demonstration promises, checked from its log and its workspace, never from its script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from foregate.cli.demo.demo_workspace import DEFECT, FILES, FLAWED, KEPT, MENDED, MESSAGE, STALE, run_git
from foregate.schemas.codes import GATES
from foregate.schemas.errors import ForegateError
from foregate.schemas.event import Event
from foregate.schemas.event_body import TaskEnded
from foregate.telemetry.audit.decisions import DecisionPoint, read_decisions


class BrokenPromise(ForegateError):
    """The demonstration did not go as promised; the message says what is missing."""


def collect_codes(points: Iterable[DecisionPoint]) -> dict[str, list[str]]:
    """Return for each gate the codes under which it stepped in, in order; for `approval` a person's yes counts."""
    found: dict[str, list[str]] = {gate: [] for gate in GATES}
    for point in points:
        stepped_in = point.severity != "info" or point.code == "approval_granted"
        if point.gate in found and point.mode == "enforce" and stepped_in and point.code not in found[point.gate]:
            found[point.gate].append(point.code)
    return found


def check_log(events: Sequence[Event]) -> None:
    """Raise BrokenPromise unless every gate stepped in and every task ended well."""
    silent = [gate for gate, codes in collect_codes(read_decisions(events)).items() if not codes]
    if silent:
        raise BrokenPromise(f"the demonstration broke a promise: the gate `{silent[0]}` never stepped in")
    ends = [event.body.status for event in events if isinstance(event.body, TaskEnded)]
    if ends != ["completed", "completed"]:
        raise BrokenPromise(f"the demonstration broke a promise: its tasks ended as {', '.join(ends) or 'nothing'}")
    faults = [point for point in read_decisions(events) if point.code == "gate_error"]
    if faults:
        raise BrokenPromise(f"the demonstration broke a promise: a gate failed at {faults[0].address}")


def check_workspace(folder: Path, config: str) -> None:
    """Raise BrokenPromise unless the work was done and nothing else was; `config` is `.git/config` as it was."""
    for what, holds in list_promises(folder, config):
        if not holds:
            raise BrokenPromise(f"the demonstration broke a promise: {what}")


def list_promises(folder: Path, config: str) -> Iterator[tuple[str, bool]]:
    """Yield what must not be so, and whether it is as it must be."""
    yield f"{FLAWED} was not mended", (folder / FLAWED).read_text() == FILES[FLAWED].replace(DEFECT, MENDED)
    for name in STALE:
        yield f"{name} is still there", not (folder / name).exists()
    yield f"{KEPT} is gone", (folder / KEPT).is_file()
    names = {path.name for path in folder.iterdir()}
    yield "there are files nobody asked for", names == {".git", "README.md", FLAWED, "logs"}
    yield "git's own settings were changed", (folder / ".git" / "config").read_text() == config
    yield "the commit is missing", run_git(folder, "log", "-1", "--format=%s").strip() == MESSAGE
    yield "the commit left changes out", run_git(folder, "status", "--porcelain").strip() == ""

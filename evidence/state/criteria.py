"""What a finished call shows of a criterion of the plan, and the call that would show it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from foregate.schemas.event_body import ToolFinished
from foregate.schemas.plan import Criterion
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import EvidenceKind, EvidenceRecord, Origin, ToolCall, Trust
from foregate.schemas.tool_spec import ResourceKind
from foregate.schemas.turn import CheckResult

_SHOWING = (EvidenceKind.FILE_READ, EvidenceKind.COMMAND_OUTPUT, EvidenceKind.VERIFICATION_RESULT)
_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY)


def build_observation(criterion: Criterion) -> ToolCall | None:
    """Return the call that would settle a criterion, None for one in words alone; whether it may run is judged."""
    target = criterion.target
    if criterion.check is None or not target:
        return None
    found: tuple[str, dict[str, Json]] = ("read_file", {"path": target})
    if criterion.check == "http_status":
        found = "http_request", {"method": "GET", "url": target}
    elif criterion.check == "command_succeeds":
        argv = _split(target)
        if not argv:
            return None
        found = "run_command", {"argv": list(argv)}
    return ToolCall.of(*found)


def check_criterion(criterion: Criterion, body: ToolFinished, *, changed: bool = False) -> CheckResult | None:
    """Return what a finished call tells of a criterion: met, failed, or None when it does not tell.

    `changed` says that the call is more than a look, so that its status is not that of the page it changed.
    """
    target = (criterion.target or "").removeprefix("./")
    if not target:
        return None
    match criterion.check:
        case "file_exists":
            seen = any(_find_records(body, target)) or (_is_read(body, target) and body.ok)
            return "met" if seen else "failed" if _is_read(body, target) else None
        case "file_contains":
            return _check_content(criterion.expected or "", body, target)
        case "command_succeeds" if body.exit_code is not None and _split(body.target) == (_split(target) or None):
            return "met" if body.ok and body.exit_code == 0 else "failed"
        case "http_status" if (body.tool, body.target) == ("http_request", target):
            met = str("" if body.exit_code is None else body.exit_code) == (criterion.expected or "200")
            return "met" if met else None if changed else "failed"
        case _:
            return None


def _check_content(expected: str, body: ToolFinished, target: str) -> CheckResult | None:
    """Return whether what a call showed of a file, and of no other, holds a text; a part that does not is no sign."""
    records = [record for record in body.evidence if record.kind is EvidenceKind.FILE_READ]
    shown = [record.resource.id for record in records]
    if not body.ok or not (_is_read(body, target) or (target in shown and _are_one_file(records))):
        return "failed" if _is_read(body, target) else None
    if expected in body.content:
        return "met"
    partly = body.dropped or not _is_read(body, target) or any(one.trust is not Trust.DIRECT for one in records)
    return None if partly else "failed"


def _find_records(body: ToolFinished, target: str) -> Iterator[EvidenceRecord]:
    """Yield the records that show a file or folder is there; one of a change that took it away has no hash."""
    for record in body.evidence:
        shows = record.kind in _SHOWING and record.resource.kind in _PATHS and record.origin is Origin.WORKSPACE
        if shows and record.resource.id == target.rstrip("/") and (record.hash or not record.own_change):
            yield record


def _is_read(body: ToolFinished, target: str) -> bool:
    return (body.tool, body.target) == ("read_file", target)


def _are_one_file(records: list[EvidenceRecord]) -> bool:
    """Whether the records are of one file: a link it was named by has a record of its own, with the same content."""
    return len({record.hash for record in records if record.hash}) <= 1 and len(records) <= 2


def _split(command: str) -> tuple[str, ...]:
    """Return the argument vector a text names, empty for one that cannot be read."""
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return ()

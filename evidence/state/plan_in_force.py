"""What finished calls show of the plan in force: which criteria are met, and which steps are done."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from foregate.schemas.event_body import ToolFinished
from foregate.schemas.judgement import Judgement
from foregate.schemas.plan import Criterion
from foregate.schemas.strict_json import Json, get_int, get_list, get_object, get_text
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


@dataclass(slots=True)
class StepProgress:
    """One step of an accepted plan: `calls` are the events of the calls that were made for it and ended well."""

    id: str
    tool: str
    target: str
    description: str
    uses: int = 1
    calls: list[int] = field(default_factory=list)

    @property
    def completed_by(self) -> int:
        """The event that completed the step, 0 while calls of it are open."""
        return self.calls[self.uses - 1] if len(self.calls) >= self.uses else 0

    def is_about(self, body: ToolFinished) -> bool:
        """Whether a call is what the step names: its tool, and its target where it names one, perhaps by a pattern."""
        wanted = self.target.removeprefix("./").rstrip("/")
        return self.tool.casefold() == body.tool.casefold() and (not wanted or fnmatchcase(body.target, wanted))


def read_steps(judgement: Judgement) -> list[StepProgress]:
    """Return the steps of the plan a judgement puts in force, none where it changes no plan.

    A plan without planned steps is its first action.
    """
    row = next((d for d in judgement.decisions if d.gate == "plan" and judgement.plan is not None), None)
    if row is None or (plan := get_object(row.detail, "plan")).get("first_action") is None:
        return []
    planned = get_list(plan, "planned_steps") if plan.get("planned_steps") else [get_object(plan, "first_action")]
    revision = get_int(row.detail, "revision")
    return [_read_step(step, f"plan-v{revision}-step-{n}") for n, step in enumerate(planned, start=1)]


def _read_step(step: Json, name: str) -> StepProgress:
    data: Mapping[str, Json] = step if isinstance(step, dict) else {}
    uses = data.get("uses")
    tool, target, description = (get_text(data, key, "") for key in ("tool", "target", "description"))
    return StepProgress(name, tool, target, description, uses if isinstance(uses, int) and uses > 0 else 1)


def advance_steps(steps: Collection[StepProgress], seq: int, body: ToolFinished, used: Collection[str]) -> None:
    """Note a call that ended well under the first open step it was made for; `used` are those whose leave it used."""
    open_ = [step for step in steps if body.ok and not step.completed_by]
    named = (step for step in open_ if step.id in used)
    found = next(named, None) or next((step for step in open_ if step.is_about(body)), None)
    if found is not None:
        found.calls.append(seq)

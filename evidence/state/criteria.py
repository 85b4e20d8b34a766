"""Criteria of a plan against what was observed."""

from __future__ import annotations

import shlex

from foregate.evidence.ledger import Ledger
from foregate.evidence.state.task import TaskState
from foregate.schemas.event_body import ToolFinished
from foregate.schemas.plan import Criterion
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.turn import Check, CheckResult

LOOKS = ("file_exists", "file_contains", "http_status")
"""Checks that a mere observation can settle; `command_succeeds` is more than a look."""


def check_criterion(criterion: Criterion, body: ToolFinished) -> CheckResult | None:
    """Return what a finished call tells of a criterion: met, failed, or None when it is about something else."""
    target = (criterion.target or "").removeprefix("./")
    if not target or not is_about(criterion, body, target):
        return None
    match criterion.check:
        case "file_exists":
            return "met" if body.ok else "failed"
        case "file_contains":
            if body.ok and (criterion.expected or "") in body.content:
                return "met"
            return None if body.dropped else "failed"
        case "command_succeeds":
            return "met" if body.ok and body.exit_code == 0 else "failed"
        case "http_status":
            return (
                "met"
                if str("" if body.exit_code is None else body.exit_code) == (criterion.expected or "200")
                else "failed"
            )
    return None


def is_about(criterion: Criterion, body: ToolFinished, target: str) -> bool:
    """Whether a finished call observed exactly what the criterion is about."""
    if criterion.check in ("file_exists", "file_contains"):
        return body.tool == "read_file" and body.target == target
    if criterion.check == "http_status":
        return body.tool == "http_request" and body.target == target
    if body.exit_code is None:  # only a process ends with one: a file may be named like a command
        return False
    try:
        return shlex.split(body.target) == shlex.split(target)
    except ValueError:
        return False


def criterion_key(criterion: Criterion) -> str:
    """Return the name a criterion's result is kept under."""
    return f"{criterion.check}\0{criterion.target}\0{criterion.expected}"


def build_checks(task: TaskState, ledger: Ledger) -> tuple[Check, ...]:
    """Return how each criterion of the plan in force stands after the task's last change."""
    if task.plan is None:
        return ()
    found = []
    for criterion in task.plan.criteria:
        if criterion.check is None or not criterion.target:
            continue
        seen = task.criteria.get(criterion_key(criterion))
        if seen is not None and seen[0] > task.last_change:
            result: CheckResult = seen[1]
        else:
            result = "unseen" if criterion.check in LOOKS else "uncheckable"
        found.append(Check(criterion.text[:200], result, criterion.target[:200]))
    for resource in sorted(task.changed):
        if not ledger.is_observed_since_change(resource):
            found.append(Check(f"`{resource.id}` was read back", "unseen", resource.id))
    return tuple(found)


def build_observations(task: TaskState) -> list[ToolCall]:
    """Return the observations that would settle what is unseen."""
    calls = []
    for criterion in task.plan.criteria if task.plan else ():
        seen = task.criteria.get(criterion_key(criterion))
        if criterion.check not in LOOKS or not criterion.target or (seen and seen[0] > task.last_change):
            continue
        if criterion.check == "http_status":
            calls.append(ToolCall.of("http_request", {"method": "GET", "url": criterion.target}))
        else:
            calls.append(ToolCall.of("read_file", {"path": criterion.target}))
    return list({call.digest: call for call in calls}.values())

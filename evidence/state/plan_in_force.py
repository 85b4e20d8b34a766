"""What finished calls show of the plan in force, and what calls use up of it and of the person's mentions."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from msgspec.structs import replace

from foregate.schemas.event_body import ToolFinished, ToolStarted
from foregate.schemas.judgement import Judgement
from foregate.schemas.plan import (
    Criterion,
    Leave,
    PlanInForce,
    SharedUses,
    add_uses,
    list_spent,
    subtract_spent,
    use_items,
)
from foregate.schemas.strict_json import Json, get_int, get_list, get_object, get_text
from foregate.schemas.tool_call import EvidenceKind, EvidenceRecord, Origin, ToolCall, Trust
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import CheckResult

_SHOWING = (EvidenceKind.FILE_READ, EvidenceKind.COMMAND_OUTPUT, EvidenceKind.VERIFICATION_RESULT)
_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY)
NONE_LEFT = 2**31
"""The uses of everything while it is unknown what a child task has used."""


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


class CallUses(NamedTuple):
    """What a call uses up: mentions by the keys of their values, and items of the plan, with the call's arguments."""

    keys: tuple[str, ...] = ()
    items: tuple[int, ...] = ()
    arguments: Mapping[str, Json] = {}


@dataclass(slots=True)
class Uses:
    """How often each mention is used, by the key of its value; the plan itself is kept by the task.

    `permitted` is what calls use up once they run, `taken` what those that ran have, by call. `lent` names the children
    that may use all of it, from their start until what they used is known. `leave` is what the task got itself. `made`
    are the digests of calls that took effect, `planned` the calls for which a plan was due.
    """

    said: Counter[str] = field(default_factory=Counter)
    permitted: dict[str, CallUses] = field(default_factory=dict)
    taken: dict[str, CallUses] = field(default_factory=dict)
    lent: set[str] = field(default_factory=set)
    leave: Leave | None = None
    made: set[str] = field(default_factory=set)
    planned: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, leave: Leave) -> Uses:
        """Return the uses a child task begins with: those its parent has made."""
        return cls(Counter(leave.said_used), leave=leave)

    def count(self, key: str) -> int:
        """Return how many mentions of a value are used up."""
        return NONE_LEFT if self.lent else self.said[key]

    def list_counts(self, keys: Iterable[str]) -> dict[str, int]:
        """Return how many mentions are used up of each value that has any used up, among them those with these keys."""
        return {key: count for key in {*self.said, *keys} if (count := self.count(key)) > 0}

    def limit(self, plan: PlanInForce) -> PlanInForce:
        """Return a plan as far as it may be used now: not at all while a child may use it."""
        return use_up_steps(plan) if self.lent else plan

    def permit(self, judgement: Judgement, calls: Mapping[str, ToolCall]) -> None:
        """Note what the calls that a judgement allows use up once they run."""
        for call in {*judgement.uses, *judgement.said}:
            arguments = (calls[call].arguments if call in calls else None) or {}
            self.permitted[call] = CallUses(judgement.said.get(call, ()), judgement.uses.get(call, ()), arguments)

    def get_items(self, call: str) -> tuple[int, ...]:
        """Return the items of the plan that a call was allowed to use."""
        return self.permitted.get(call, CallUses()).items

    def start(self, started: ToolStarted, plan: PlanInForce | None) -> PlanInForce | None:
        """Take in that a call starts, which uses up what it may, once however often it starts; return the plan."""
        call = started.call
        if started.lends:
            self.lent.add(call)
        if call in self.taken or call not in self.permitted:
            return plan
        self.taken[call] = taken = self.permitted[call]
        self.said.update(taken.keys)
        return plan and use_items(plan, taken.items, taken.arguments)

    def finish(self, ended: ToolFinished, started: ToolStarted | None, plan: PlanInForce | None) -> PlanInForce | None:
        """Take in that a call ended; return the plan. One that failed without an effect gives back what it used up.

        A command may have had one however it ended.
        """
        if started is not None and started.side_effect != "pure" and (ended.ok or ended.changes):
            self.made.add(started.permit.digest)
        if ended.shared is not None:
            self.lent.discard(ended.call)
            self.said.update(ended.shared.said)
            return plan and add_uses(plan, ended.shared)
        if ended.ok or ended.changes or (started is not None and started.effect is Effect.EXECUTE):
            return plan
        taken = self.taken.pop(ended.call, CallUses())
        self.said.subtract(taken.keys)
        items = plan.items if plan is not None else ()
        planned = tuple(at for at in taken.items if at < len(items) and items[at].terms is not None)
        return plan and use_items(plan, planned, taken.arguments, back=True)

    def build_leave(
        self, call: str, plan: PlanInForce | None, waiting: Iterable[str], *, outside: bool
    ) -> Leave | None:
        """Return what the child that a call starts may use, without what the `waiting` calls of the response will;
        None where the uses of another child are unknown."""
        if self.lent != {call}:
            return None
        said = Counter(self.said)
        for taken in [self.permitted[one] for one in waiting if one in self.permitted and one not in self.taken]:
            said.update(taken.keys)
            plan = plan and use_items(plan, taken.items, taken.arguments)
        if plan is not None:
            bare = PlanInForce(plan.revision, plan.goal, plan.items, blind=True, flows=plan.flows)
            plan = use_up_steps(bare, planned=False) if plan.blind and not plan.missing else None
        return Leave(plan, {key: count for key, count in said.items() if count > 0}, outside)

    def report(self, plan: PlanInForce | None) -> SharedUses | None:
        """Return what a child and its own children have used of what it was given, None where that is unknown."""
        given = self.leave or Leave()
        steps = [[item.step for item in one.items] for one in (plan, given.plan) if one is not None]
        if self.lent or (given.plan is not None and steps[:1] != steps[1:]):
            return None
        said = {key: more for key, count in self.said.items() if (more := count - given.said_used.get(key, 0)) > 0}
        if plan is None or given.plan is None:
            return SharedUses(said=said)
        used = tuple(now.used - was.used for now, was in zip(plan.items, given.plan.items, strict=True))
        return SharedUses(used, subtract_spent(list_spent(plan), list_spent(given.plan)), said)


def use_up_steps(plan: PlanInForce, *, planned: bool = True) -> PlanInForce:
    """Return a plan with nothing left of the steps planned without a look at a call, or else of all others."""
    return replace(
        plan,
        items=tuple(
            replace(item, used=item.uses) if (item.terms is not None) is planned else item for item in plan.items
        ),
    )

"""What the calls of a task use up of its plan and of the person's mentions, give back, and share with its children."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from foregate.schemas.event_body import ToolFinished, ToolStarted
from foregate.schemas.judgement import Judgement
from foregate.schemas.plan import Leave, PlanInForce, SharedUses, add_uses, list_spent, subtract_spent, use_items
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Effect

NONE_LEFT = 2**31
"""The uses of everything while it is unknown what a child task has used."""


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

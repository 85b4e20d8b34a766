"""The plan a model writes before a risky call, and the scope an accepted plan binds as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import chain, repeat
from typing import Literal

from msgspec import field
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict

from foregate.schemas.late_pattern import compile_late
from foregate.schemas.noun import Noun
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.value import read_value

EffectName = Literal[
    "observation", "create", "edit", "move", "delete", "commit", "send", "execute", "administer", "unknown"
]
BoundRule = Literal["equals", "at_most", "contains", "free"]
"""How a value may be; `at_most` is a sum over all uses of the step."""
# "[0]" in "items[0].price": a term holds for each item, so places are taken out before names are compared.
_PLACE = compile_late(r"\[\d+\]")


class Criterion(BaseModel):
    """How success would be recognised; `check` names what can be checked mechanically, with its object."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    text: str
    check: Literal["file_exists", "file_contains", "command_succeeds", "http_status"] | None
    target: str | None
    expected: str | None


class PlannedAction(BaseModel):
    """The first action: tool, target and what it does."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    tool: str
    target: str
    description: str


class PlannedStep(BaseModel):
    """A later step; `target` may be a glob, a null `effect` is the tool's strongest, null `uses` is 1."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    tool: str
    target: str
    description: str
    effect: EffectName | None
    uses: int | None


class PlanHead(BaseModel):
    """What every plan says: on the wire every key is required, optional ones are nullable."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    goal: str
    success_criteria: list[Criterion]
    first_action: PlannedAction
    requires_verification: bool
    risky_actions: list[str]
    version: int = 0


class Plan(PlanHead):
    """`pre_execution_plan_v1`."""

    planned_steps: list[PlannedStep] | None


class PlanTerm(Noun, frozen=True):
    """What the value of an argument has to be; an empty `argument` is any target.

    `said` and `found` are the value, or where it is to be found: the `read`, the words of the `record`, the `field`.
    The others bound it by `value`; of `at_most`, `spent` is what calls have used up so far, a decimal number.
    """

    argument: str
    rule: Literal["said", "found", "equals", "at_most", "contains", "free"]
    value: str = ""
    read: str = ""
    record: str = ""
    field: str = ""
    spent: str = "0"


class Flow(Noun, frozen=True):
    """Leave for what a read returned to go, word for word, to a value that the person said.

    `read` names the read by its tool or by words of its target.
    """

    read: str
    to: str


class ScopeItem(Noun, frozen=True):
    """Permission for `uses` calls of an effect on resources matching `pattern`; `used` counts those made.

    A pattern `sha256:...` is one exact call. `tool` narrows the item to one tool, where the policy binds a plan by its
    steps. `approved` says that a person saw it and said yes. With `exact` the pattern is a plain name. A command is
    covered only in `folder`, "" for the root, and with `scripts` as they were at the yes, "" for none. With `during`
    the item counts only while that task of a confirmed plan runs, for its tool, and not for a risky call. `values` is a
    hash over the values of the call it was made for, "" for none. With `terms` it was planned without the calls: it
    covers calls of its tool or effect whose values keep them, and `pattern` is the step's description.
    """

    effect: Effect
    kind: ResourceKind
    pattern: str
    uses: int = 1
    used: int = 0
    step: str = ""
    tool: str = ""
    approved: bool = False
    exact: bool = False
    folder: str = ""
    during: str = ""
    scripts: str = ""
    values: str = ""
    terms: tuple[PlanTerm, ...] | None = None


class PlanInForce(Noun, frozen=True):
    """The accepted plan of a task: its revision, its scope, and the classes of risk it was accepted with.

    `blind` says that its planner was asked without the calls, `missing` why that made no plan, "" where it did.
    `flows` is what may go where, `risks` what its planner says could go wrong.
    """

    revision: int
    goal: str
    items: tuple[ScopeItem, ...]
    requires_verification: bool = False
    criteria: tuple[Criterion, ...] = ()
    amendments: int = 0
    classes: tuple[str, ...] = ()
    seq: int = 0
    blind: bool = False
    missing: str = ""
    flows: tuple[Flow, ...] = ()
    risks: tuple[str, ...] = ()

    def find_step(self, used: Sequence[int]) -> ScopeItem | None:
        """Return the first step of the person's words among the items a call uses, None for none."""
        found = (self.items[at] for at in used if at < len(self.items))
        return next((item for item in found if item.terms is not None), None)


class Leave(Noun, frozen=True):
    """What a child task may use of its parent's mandate: the blind plan in force, and what is used of the mentions.

    `said_used` counts uses by the key of the value; `outside` says that the parent has read something from outside.
    """

    plan: PlanInForce | None = None
    said_used: Mapping[str, int] = field(default_factory=dict)
    outside: bool = False


class SharedUses(Noun, frozen=True):
    """What a child task used of its parent's plan, by item and by bound that is a sum, and of the mentions by key."""

    used: tuple[int, ...] = ()
    spent: tuple[str, ...] = ()
    said: Mapping[str, int] = field(default_factory=dict)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


class BlindTarget(_Part):
    """To whom or on what: a value that the person `said`, or one still to be found.

    That one is the `field` of the record that holds the words of `record`, in what `read` returned, a tool or words of
    its target; null is any. A null `argument` is any target.
    """

    argument: str | None
    said: str | None
    read: str | None
    record: str | None
    field: str | None


class Bound(_Part):
    """How the value of an argument may be; `free` needs no `value`."""

    argument: str
    rule: BoundRule
    value: str | None


class BlindStep(_Part):
    """A step, named by its tool, its effect or both; a null `uses` is 1."""

    tool: str | None
    effect: EffectName | None
    uses: int | None
    targets: list[BlindTarget]
    bounds: list[Bound]
    description: str


class BlindFlow(_Part):
    """What may go where: what a `read` returned, `to` a value that the person said."""

    read: str
    to: str


class BlindPlan(PlanHead):
    """`pre_execution_plan_v2`."""

    planned_steps: list[BlindStep]
    flows: list[BlindFlow]


def list_leaves(arguments: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield each value that is no list and no object, with its path, such as `items[0].price`."""
    stack: list[tuple[str, Json]] = list(arguments.items())[::-1]
    while stack:
        path, given = stack.pop()
        if isinstance(given, dict):
            stack += [(f"{path}.{name}", inner) for name, inner in list(given.items())[::-1]]
        elif isinstance(given, list):
            stack += [(f"{path}[{at}]", inner) for at, inner in list(enumerate(given))[::-1]]
        else:
            yield path, given


def is_about(term: PlanTerm, path: str) -> bool:
    """Whether a term names the argument at a path: the whole parameter, or the path without places in lists."""
    bare = _leave_out_places(path)
    return _leave_out_places(term.argument).removesuffix("[]") in (bare, bare.partition(".")[0])


# Of a few hundred names each is asked about again for every value of every call.
@lru_cache(maxsize=4096)
def _leave_out_places(path: str) -> str:
    return _PLACE.sub("", path)


def find_values(term: PlanTerm, arguments: Mapping[str, Json]) -> list[Json]:
    """Return the values of the arguments that a term names."""
    return [given for path, given in list_leaves(arguments) if is_about(term, path)]


def add_amounts(term: PlanTerm, arguments: Mapping[str, Json]) -> Decimal | None:
    """Return the sum of the arguments that a term names, None for no argument, and where one is negative or no number.

    >>> add_amounts(PlanTerm("amount", "at_most"), {"amount": "$1,200.50"})
    Decimal('1200.5')
    """
    values = [read_value(given) for given in find_values(term, arguments)]
    amounts = [Decimal(value.normal) for value in values if value is not None and value.kind == "number"]
    return sum(amounts, Decimal(0)) if values and len(amounts) == len(values) and min(amounts) >= 0 else None


def use_items(
    plan: PlanInForce, used: tuple[int, ...], arguments: Mapping[str, Json], *, back: bool = False
) -> PlanInForce:
    """Return a plan once a call with these arguments has used up the items with these numbers, or given them `back`."""
    sign = -1 if back else 1
    items = tuple(
        _use(item, sign * used.count(at), arguments, sign) if at in used else item for at, item in enumerate(plan.items)
    )
    return replace(plan, items=items)


def _use(item: ScopeItem, count: int, arguments: Mapping[str, Json], sign: int) -> ScopeItem:
    terms = item.terms and tuple(
        replace(term, spent=str(Decimal(term.spent) + sign * (add_amounts(term, arguments) or 0)))
        if term.rule == "at_most"
        else term
        for term in item.terms
    )
    return replace(item, used=item.used + count, terms=terms)


def add_uses(plan: PlanInForce, shared: SharedUses) -> PlanInForce:
    """Return a plan with what a child task has used of it."""
    used, sums = chain(shared.used, repeat(0)), chain(shared.spent, repeat("0"))
    spent = tuple(str(Decimal(one) + Decimal(more)) for one, more in zip(list_spent(plan), sums, strict=False))
    items = (replace(item, used=item.used + more) for item, more in zip(plan.items, used, strict=False))
    return replace(plan, items=restore_spent(tuple(items), spent))


def subtract_spent(now: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    """Return what was spent of each bound since; both in the order of the bounds."""
    return tuple(str(Decimal(one) - Decimal(other)) for one, other in zip(now, before, strict=True))


def list_spent(plan: PlanInForce) -> tuple[str, ...]:
    """Return what was spent of each bound of a plan that is a sum, in order."""
    return tuple(term.spent for item in plan.items for term in item.terms or () if term.rule == "at_most")


def restore_spent(items: tuple[ScopeItem, ...], spent: tuple[str, ...]) -> tuple[ScopeItem, ...]:
    """Return items with what was spent of their bounds; raise ValueError where the counts differ."""
    left = list(spent)
    found = []
    for item in items:
        terms = item.terms and tuple(
            replace(term, spent=left.pop(0) if left else "") if term.rule == "at_most" else term for term in item.terms
        )
        found.append(replace(item, terms=terms))
    if left or any(term.spent == "" for item in found for term in item.terms or ()):
        raise ValueError("not one sum for each bound that is one")
    return tuple(found)

"""The arguments of a call that the terms of a planned step are about, and what a use of the step takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from itertools import chain, repeat

from msgspec.structs import replace

from foregate.schemas.late_pattern import compile_late
from foregate.schemas.plan import PlanInForce, PlanTerm, ScopeItem, SharedUses
from foregate.schemas.strict_json import Json
from foregate.schemas.value import read_value

# "[0]" in "items[0].price": a term holds for each item, so places are taken out before names are compared.
_PLACE = compile_late(r"\[\d+\]")


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

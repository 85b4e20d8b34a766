"""A change of single keys, on top of whatever policy a turn was judged under."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

from msgspec import Struct

from foregate.audit.reach_pages import ReachPage, read_condition
from foregate.gates.replay.reach import list_condition_paths
from foregate.policy.followed import Condition, Path, is_kept, read_value
from foregate.policy.policy import Policy
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import BESIDE_USER, replace_user_layer
from foregate.policy.source.strict_yaml import Data
from foregate.policy.source.strict_yaml import Path as KeyPath
from foregate.policy.source.values import replace_values
from foregate.schemas import strict_json
from foregate.schemas.strict_json import Json


class KeyChange(Struct, frozen=True):
    """Other values by their paths; None takes a rule or an entry out."""

    values: Mapping[KeyPath, Data]


Change = Layer | KeyChange | None
"""What is tried: another user's file (None for none), or other values of single keys."""


class Revision:
    """Makes of recorded policies what a change makes of them: of those that differ in the user's file alone, one."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._made: dict[str, Policy] = {}

    def revise(self, before: Policy, layers: Mapping[str, Json]) -> Policy:
        """Return the policy the change makes of one that was recorded with its layers.

        Raises PolicyError where a workspace's file would be refused, ValueError where the values make no policy.
        """
        if isinstance(self._change, KeyChange):
            return replace_values(before, self._change.values)
        beside = strict_json.digest({name: layers.get(name) for name in BESIDE_USER})
        if beside not in self._made:
            self._made[beside] = replace_user_layer(self._change, layers)
        return self._made[beside]


def list_conditions(pages: Iterable[ReachPage]) -> list[Condition]:
    """Return what turns rest on, each condition once."""
    return [read_condition(text) for text in dict.fromkeys(text for page in pages for text in page.list_conditions())]


def list_break_points(
    conditions: Iterable[Condition], key: KeyPath, before: Policy, least: int, most: int
) -> Iterator[int]:
    """Yield, ascending, values of a numeric key at which a condition of recorded turns comes out otherwise than at the
    value before it: between two of them nothing turns. Each condition is taken to turn once on either side."""
    path = tuple(map(str, key))
    now = read_value(before, path)
    put = lru_cache(maxsize=None)(lambda value: put_value(before, key, value))
    found: set[int] = set()
    for condition in conditions:
        if condition[0] == "number" and path in list_condition_paths(condition):
            found.update(_list_turns(condition, path, before, now, (least, most), put))
    yield from sorted(found)


def _list_turns(
    condition: Condition, path: Path, before: Policy, now: int, ends: tuple[int, int], put: Callable[[int], Policy]
) -> Iterator[int]:
    """Yield the values nearest to `now` on either side at which a condition no longer holds."""

    def holds(value: int) -> bool:
        return is_kept(condition, before, put(value))

    _, _, left, right, _ = condition
    plain = left == ("key", path) and isinstance(right, int)
    for end in ends:
        if plain:  # compared with a number: it turns at that, or beside it
            near = (value for value in (right - 1, right, right + 1) if min(now, end) <= value <= max(now, end))
            turned = [value for value in near if value != now and not holds(value)]
            yield from [min(turned, key=lambda value: abs(value - now))] if turned else []
        elif now != end and not holds(end):
            yield _find_nearest(holds, now, end)


def _find_nearest(holds: Callable[[int], bool], still: int, turned: int) -> int:
    while abs(turned - still) > 1:
        middle = (still + turned) // 2
        still, turned = (middle, turned) if holds(middle) else (still, middle)
    return turned


def put_value(policy: Policy, key: KeyPath, value: int) -> Policy:
    """Return a policy with another number, unchecked, for nothing but to be compared with."""
    return cast(Policy, _put(policy, tuple(map(str, key)), value))


def _put(place: Any, path: tuple[str, ...], value: int) -> Any:
    step, rest = path[0], path[1:]
    if isinstance(place, Mapping):
        return {**place, step: _put(place[step], rest, value) if rest else value}
    inner = _put(getattr(place, step), rest, value) if rest else value
    return place.model_copy(update={step: inner})

"""Where along a number of the policy a condition of recorded turns breaks: between two such values nothing turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from foregate.gates.replay.reach import list_condition_paths
from foregate.gates.replay.swept_number import Range, SweptNumber
from foregate.policy.followed import ARITHMETIC, COMPARISONS, Condition, Path, Term, read_value
from foregate.policy.policy import Policy
from foregate.policy.source.strict_yaml import Path as KeyPath


def list_break_points(
    conditions: Iterable[Condition], key: KeyPath, before: Policy, least: int, most: int
) -> list[int]:
    """Return, ascending, the values of a numeric key nearest to that in force, on either side, at which a condition of
    recorded turns comes out otherwise than it did. Turns that were judged under another value may rest on one that does
    not hold at that in force: of it the nearest values to those at which it holds are returned."""
    path, found = tuple(map(str, key)), set[int]()
    now = read_value(before, path)
    for condition in conditions:
        if condition[0] == "number" and path in list_condition_paths(condition):
            within = Range(now, least, most)
            beyond = _compare(condition, partial(_read, before, path, within)) is condition[-1]
            found.update([within.low - beyond] if within.low > least else [])
            found.update([within.high + beyond] if within.high < most else [])
    return sorted(found)


def _read(policy: Policy, key: Path, within: Range, name: Path) -> int:
    """Return a number of a policy; what stands for the key's own notes the range in which all compares the same."""
    value = SweptNumber(within) if name == key else read_value(policy, name)
    return value if isinstance(value, int) else 1  # of a key that this policy does not have


def _compare(condition: Condition, read: Callable[[Path], int]) -> bool:
    _, sign, left, right, _ = condition
    return COMPARISONS[sign](_calculate(left, read), _calculate(right, read))


def _calculate(term: Term, read: Callable[[Path], int]) -> int:
    if isinstance(term, int):
        return term
    if term[0] == "key":
        return read(term[1])
    return ARITHMETIC[term[0]](_calculate(term[1], read), _calculate(term[2], read))

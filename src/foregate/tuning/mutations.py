"""A policy moved in one place at a time: each rule taken out, each switch thrown, each threshold moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from foregate.gates.replay.other_values import LARGEST, find_domain, list_other_words
from foregate.policy.policy import Policy
from foregate.policy.section import PolicySection
from foregate.policy.source.layers import RULES
from foregate.policy.source.strict_yaml import Data, Path, format_path
from foregate.policy.source.users import is_outside_judging
from foregate.policy.source.values import WORDS, list_values, mark_moved, replace_values

_LOOKING = "sensitive"
"""The section that steers nothing but looking, of which a case keeps what was found."""


class Mutation(Struct, frozen=True):
    """One value of a policy moved; `value` None takes it out."""

    path: Path
    value: Data
    policy: Policy

    @property
    def key(self) -> str:
        """The dotted key that is moved."""
        return format_path(self.path)

    @property
    def says(self) -> str:
        """The move in words."""
        if self.value is None:
            return f"without the rule `{self.path[-1]}`"
        return f"`{self.key}: {str(self.value).lower() if isinstance(self.value, bool) else self.value}`"


def list_mutations(policy: Policy) -> tuple[Mutation, ...]:
    """Return the moves of a policy: of each rule, switch, choice and number that a ruling may hang on."""
    return tuple(_find_mutations(policy))


def _find_mutations(policy: Policy) -> Iterator[Mutation]:
    for path, now in list_values(policy).items():
        if path[0] == _LOOKING or path[:2] in WORDS or is_outside_judging(path):
            continue
        for value in [None] if path[: len(RULES)] == RULES else _list_moves(path, now):
            try:
                moved = move_value(policy, path, value)
            except ValueError:
                continue
            yield Mutation(path, value, mark_moved(moved, policy, path, value))


def _list_moves(path: Path, now: Data) -> list[Data]:
    """Return other values of a switch, a choice or a number: half, double, and none at all."""
    if isinstance(now, int) and not isinstance(now, bool):
        least, most = find_domain(path)
        moved = (max(least, now // 2), min(most, now * 2 if now else max(1, most // 2 if most < LARGEST else 1)), least)
        return [value for value in dict.fromkeys(moved) if value != now]
    return list_other_words(path, now)


def move_value(policy: Policy, path: Path, value: Data) -> Policy:
    """Return the policy with one value replaced; raise ValueError where the result is none."""
    if value is None and path[: len(RULES)] == RULES:
        left = tuple(rule for rule in policy.rules.list if rule.id != path[-1])
        return policy.model_copy(update={"rules": policy.rules.model_copy(update={"list": left})})
    if value is not None and isinstance(moved := _copy_with(policy, path, value), Policy):
        return moved
    return replace_values(policy, {path: value})


def _copy_with(section: Any, path: Path, value: Data) -> Any:
    """Return a copy with a number or a word replaced, None where that takes reading the whole policy anew."""
    step, inner = path[0], _find_inner(section, path[0])
    if len(path) > 1:
        found = _copy_with(inner, path[1:], value) if isinstance(inner, PolicySection | Mapping) else None
    else:
        found = value if type(inner) in (int, bool, str) else None
    if found is None:
        return None
    return {**section, step: found} if isinstance(section, Mapping) else section.model_copy(update={str(step): found})


def _find_inner(section: Any, step: Any) -> Any:
    return section.get(step) if isinstance(section, Mapping) else getattr(section, str(step), None)

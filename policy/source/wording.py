"""The difference between two policies in words, and a rule in a sentence."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Literal, NamedTuple

from foregate.policy.policy import Policy
from foregate.policy.source.comments import explain_key
from foregate.policy.source.layers import RULES
from foregate.policy.source.strict_yaml import Data, Path, escape_text, format_path
from foregate.policy.source.values import compare_policies, format_value
from foregate.policy.source.workspace_file import find_direction

Way = Literal["stricter", "looser", ""]
_DOES = {"deny": "denies", "ask": "asks about", "allow": "allows"}
_STRENGTH = {"allow": 0, "ask": 1, "deny": 2}
_SHOWN = 8


class Difference(NamedTuple):
    """A key that differs: its path, both values (None for none), which way it goes, that in words, and what it does."""

    path: Path
    before: Data
    after: Data
    way: Way
    words: str
    does: str = ""

    def to_json(self) -> dict[str, Data]:
        """Return the difference as JSON values."""
        about = {"key": format_path(self.path), "before": self.before, "after": self.after}
        return {**about, "way": self.way, "words": self.words, "does": self.does}


def describe_differences(before: Policy, after: Policy) -> Iterator[Difference]:
    """Yield every key in which two policies differ, in the order of the default file."""
    for path, (old, new) in compare_policies(before, after).items():
        way = find_way(path, old, new)
        words = _describe_rule_change(old, new) if path[: len(RULES)] == RULES else _describe_change(path, old, new)
        entry = path[: len(RULES)] == RULES or old is None or new is None
        yield Difference(path, old, new, way, words, "" if entry else explain_key(path))


def find_way(path: Path, old: Data, new: Data) -> Way:
    """Return whether a value is stricter than another, looser, or neither for certain."""
    if path[: len(RULES)] == RULES:
        return _find_rule_way(old, new)
    direction = find_direction(path)
    if direction is None:
        return ""
    try:
        there, back = direction.join(old, old, new)[1], direction.join(new, new, old)[1]
    except TypeError:
        return ""
    return "stricter" if there == "tightened" and back != "tightened" else "looser" if back == "tightened" else ""


def _find_rule_way(old: Data, new: Data) -> Way:
    """Return the way of a rule that is new, gone or another; where its matchers differ too nobody can say."""
    if old is not None and new is not None:
        bare = [{**rule, "then": "", "message": "", "stands_for": ""} for rule in (old, new)]
        if bare[0] != bare[1]:
            return ""
    strength = [_measure_strength(rule) for rule in (old, new)]
    return "stricter" if strength[1] > strength[0] else "looser" if strength[1] < strength[0] else ""


def _measure_strength(rule: Data) -> int:
    """Return how strict a rule is: 0 for none, and for an allow rule that is no yes."""
    if rule is None:
        return 0
    return -1 if rule.get("stands_for") else _STRENGTH[rule["then"]]


def describe_rule(rule: Data) -> str:
    """Return what a rule does, as the end of a sentence that begins with its name."""
    rest = {key: value for key, value in rule.items() if key not in ("id", "then", "message", "stands_for")}
    if "command" in rest:
        # Words one behind the other, where other lists name alternatives.
        rest["command"] = shlex.join(rest["command"])
    matchers = ", ".join(f"{key} {_say(value)}" for key, value in rest.items())
    yes = ", as your yes" if rule.get("stands_for") else ""
    return f"{_DOES[rule['then']]} calls with {matchers}{yes}"


def _say(value: Data) -> str:
    values = value if isinstance(value, list) else [value]
    return " or ".join(f"`{escape_text(one)}`" for one in values[:_SHOWN]) + (" ..." if len(values) > _SHOWN else "")


def _describe_rule_change(old: Data, new: Data) -> str:
    if old is None:
        return f"a new rule `{new['id']}` {describe_rule(new)}"
    if new is None:
        return f"the rule `{old['id']}` is gone, which {describe_rule(old)}"
    if describe_rule(old) == describe_rule(new):
        return f"the rule `{new['id']}` says something else: {format_value(new.get('message', ''))}"
    return f"the rule `{new['id']}` {describe_rule(new)}; before it {describe_rule(old)}"


def _describe_change(path: Path, old: Data, new: Data) -> str:
    key = f"`{escape_text(format_path(path))}`"
    if isinstance(old, list) and isinstance(new, list):
        more, fewer = ([one for one in a if one not in b] for a, b in ((new, old), (old, new)))
        parts = [f"{verb} {_say(ones)}" for verb, ones in (("takes in", more), ("leaves out", fewer)) if ones]
        said = f"{key} {' and '.join(parts) or 'has another order'}"
    elif old is None or new is None:
        said = f"{key} is new: {format_value(new)}" if old is None else f"{key} is gone, which was {format_value(old)}"
    else:
        said = f"{key} is {_say_scalar(new)} instead of {_say_scalar(old)}"
    return said


def _say_scalar(value: Data) -> str:
    return f"`{escape_text(value)}`" if isinstance(value, str) else format_value(value)

"""How two policies differ, value by value, and a policy with single values replaced."""

from __future__ import annotations

import json
from collections.abc import Mapping

from foregate.policy.policy import Policy
from foregate.policy.source.layers import RULES
from foregate.policy.source.strict_yaml import Data, Path, format_path


def list_values(policy: Policy) -> dict[Path, Data]:
    """Return every value by its path; a list is one value, a rule stands under its id."""
    found: dict[Path, Data] = {}
    stack: list[tuple[Path, Data]] = [((), policy.model_dump(mode="json"))]
    while stack:
        path, value = stack.pop()
        if path == RULES:
            for rule in value:
                found[*RULES, rule["id"]] = {key: said for key, said in rule.items() if said not in (None, "")}
        elif isinstance(value, dict) and not is_whole(path):
            stack.extend(((*path, key), within) for key, within in reversed(value.items()))
        else:
            found[path] = value
    return found


def is_whole(path: Path) -> bool:
    """Whether a mapping only makes sense as a whole: what is listed of a command, and the targets of a tool."""
    return len(path) == 3 and (path[:2] == ("commands", "read_only") or (path[0], path[2]) == ("tools", "targets"))


def compare_policies(before: Policy, after: Policy) -> dict[Path, tuple[Data, Data]]:
    """Return what differs: by path the value before and after, None where there is none."""
    if before.hash == after.hash:
        return {}
    old, new = list_values(before), list_values(after)
    pairs = {path: (old.get(path), new.get(path)) for path in (*old, *new)}
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}


def replace_values(policy: Policy, wanted: Mapping[Path, Data]) -> Policy:
    """Return the policy with the values at these paths; None takes out what stands there.

    Raises ValueError where the result is no policy.
    """
    data = policy.model_dump(mode="json")
    for path, value in wanted.items():
        if path[: len(RULES)] == RULES:
            rules = data["rules"]["list"]
            at = next((number for number, rule in enumerate(rules) if rule["id"] == path[-1]), len(rules))
            rules[at : at + 1] = [] if value is None else [value]
            continue
        place: Data = data
        for step in path[:-1]:
            place = place.setdefault(step, {})
        if value is None:
            place.pop(path[-1], None)
        else:
            place[path[-1]] = value
    return Policy.model_validate_json(json.dumps(data))


_BESIDE = (
    "limits",
    "approval.expires",
    "commands.execute_command",
    "commands.timeout",
    "commands.environment",
    "http",
    "files.max_read",
    "files.max_output",
    "plan.max_bytes",
    "critique.max_bytes",
    "postlude.mode",
)
_JUDGED = ("limits.needs_per_gate", "limits.verification_rounds")


def is_outside_judging(path: Path) -> bool:
    """Whether a value is for what happens around judging, so that judging recorded turns again cannot tell of it."""
    key = format_path(path)
    return key not in _JUDGED and any(key == name or key.startswith(f"{name}.") for name in _BESIDE)

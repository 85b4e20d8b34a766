"""The values of a policy by their paths: shown, compared, and replaced one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress

from foregate.policy.policy import SCORES, WORDS_FROM, Policy
from foregate.policy.section import PolicySection
from foregate.policy.source.layers import RULES
from foregate.policy.source.load import LoadedPolicy
from foregate.policy.source.strict_yaml import Data, Path, escape_text, format_path, walk_values
from foregate.schemas import strict_json

WORDS = (("mandate", "numbers"), ("mandate", "months"))
"""What words mean: no numbers that one would move."""


def list_values(policy: Policy) -> dict[Path, Data]:
    """Return every value by its path; a list is one value, a rule stands under its id."""
    found: dict[Path, Data] = {}
    stack: list[tuple[Path, Data]] = [((), policy.recorded)]
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
    """Whether a mapping only makes sense as a whole: what is listed of commands, and the targets of a tool."""
    if path in (("commands", "reads"), ("commands", "access"), ("commands", "code")):
        return True
    return len(path) == 3 and (path[:2] == ("commands", "read_only") or (path[0], path[2]) == ("tools", "targets"))


def compare_policies(before: Policy, after: Policy) -> dict[Path, tuple[Data, Data]]:
    """Return what differs: by path the value before and after, None for no value."""
    if before.hash == after.hash:
        return {}
    old, new = list_values(before), list_values(after)
    pairs = {path: (old.get(path), new.get(path)) for path in (*old, *new)}
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}


def replace_values(policy: Policy, wanted: Mapping[Path, Data]) -> Policy:
    """Return the policy with the values at these paths; None takes out what stands there.

    Raises ValueError where the result is no policy.
    """
    moved = {str(path[0]) for path in wanted}
    data = policy.model_dump(mode="json", include=moved)
    for path, value in wanted.items():
        if path[: len(RULES)] == RULES:
            rules = data["rules"]["list"]
            at = next((number for number, rule in enumerate(rules) if rule["id"] == path[-1]), len(rules))
            rules[at : at + 1] = [] if value is None else [value]
            continue
        place: Data = data
        for step in path[:-1]:
            place = place.setdefault(step, {})
        place[path[-1]] = value
        if value is None:
            del place[path[-1]]
    kinds = {name: type(one) for name in data if isinstance(one := getattr(policy, name, None), PolicySection)}
    if kinds.keys() == moved:
        # To read the other sections anew, which are as they were, takes longer than to judge a turn.
        with suppress(ValueError):
            read = {name: kind.model_validate_json(json.dumps(data[name])) for name, kind in kinds.items()}
            return policy.model_copy(update=read)
    return Policy.model_validate_json(json.dumps(policy.model_dump(mode="json", exclude=moved) | data))


def mark_moved(moved: Policy, before: Policy, path: Path, value: Data) -> Policy:
    """Return a policy moved in one value, told apart by a hash of its own: that of all its values takes longer than
    judging a turn."""
    vars(moved)["hash"] = strict_json.digest([before.hash, format_path(path), value])
    if path[0] not in WORDS_FROM or path[:2] in SCORES:
        vars(moved)["words_hash"] = before.words_hash
    return moved


_WIDEST = 160


def format_policy(loaded: LoadedPolicy, effective: bool = False) -> list[str]:
    """Return lines `key: value  # where from`: what your files change, or with `effective` every value in force."""
    rows = build_policy_rows(loaded, effective)
    notes = [f"# left as it is, which is tighter: {key}" for key in loaded.ignored]
    return [*format_rows(rows), *notes] if rows else ["nothing differs from the default policy"]


def format_rows(rows: Sequence[Mapping[str, Data]]) -> list[str]:
    written = [(f"{row['key']}: {format_value(row['value'])}", row["from"]) for row in rows]
    width = min(max((len(left) for left, _ in written), default=0), 72)
    return [f"{left:<{width}}  # {origin}" for left, origin in written]


def build_policy_rows(loaded: LoadedPolicy, effective: bool = False) -> list[dict[str, Data]]:
    """Return the same as rows of `key`, `value` and `from`, for JSON."""
    return build_rows(list_effective_values(loaded), loaded.provenance, effective)


def build_rows(values: Mapping[str, Data], provenance: Mapping[str, str], effective: bool) -> list[dict[str, Data]]:
    """Return rows of `key`, `value` and `from`: those that are not the default's, or all."""
    return [
        {"key": key, "value": values.get(key), "from": origin}
        for key, origin in provenance.items()
        if effective or origin != "default"
    ]


def list_effective_values(loaded: LoadedPolicy) -> dict[str, Data]:
    """Return the values in force by the keys of `provenance`."""
    found: dict[str, Data] = {}
    for path, value in walk_values(loaded.policy.model_dump(mode="json", exclude_none=True)):
        if path[: len(RULES)] == RULES and len(path) == len(RULES) + 1:
            found[format_path((*RULES, value["id"]))] = {key: said for key, said in value.items() if said != ""}
        else:
            found[format_path(path)] = value
    return found


def format_value(value: Data) -> str:
    """Return a value on one line; long ones are cut, which the JSON form is not."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _WIDEST:
        return escape_text(text, _WIDEST)
    count, least = (f"{len(value)} entries: ", 40) if isinstance(value, list) else ("", 20)
    return f"{count}{escape_text(text, _WIDEST - least)} ..."

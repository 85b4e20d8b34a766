"""The policy as lines of text or as data: what holds, and where each value comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from foregate.policy.source.layers import RULES
from foregate.policy.source.load import LoadedPolicy
from foregate.policy.source.strict_yaml import Data, escape_text, format_path, walk_values

_WIDEST = 160


def format_policy(loaded: LoadedPolicy, effective: bool = False) -> list[str]:
    """Return lines `key: value  # where from`: what your files change, or with `effective` every value in force."""
    rows = build_policy_rows(loaded, effective)
    notes = [f"# left as it is, which is tighter: {key}" for key in loaded.ignored]
    return [*format_rows(rows), *notes] if rows else ["nothing differs from the default policy"]


def format_rows(rows: Sequence[Mapping[str, Data]]) -> list[str]:
    """Return rows as lines with the origins below each other."""
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
    if isinstance(value, list):
        return f"{len(value)} entries: {escape_text(text, _WIDEST - 40)} ..."
    return f"{escape_text(text, _WIDEST - 20)} ..."

"""Policies for tests: the default with a few keys changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foregate.policy.policy import Policy
from foregate.policy.source.layers import read_text
from foregate.policy.source.load import check_text, default_policy
from foregate.schemas.errors import PolicyError


def policy_with(changes: dict[str, Any] | None = None, base: Policy | None = None) -> Policy:
    """Return the default policy with dotted keys set to other values.

    Without a `base` the planner sees the calls, so that a script can tell when it is asked and what it answers;
    `plan.form: blind` among the changes is the default again.
    """
    base, seen = (base, {}) if base is not None else (default_policy(), {"plan.form": "call"})
    wanted = base.hash, json.dumps({**seen, **(changes or {})})
    if wanted not in _BUILT:
        _BUILT[wanted] = _build(base, json.loads(wanted[1]))
    return _BUILT[wanted]


def check_policy_file(file: Path) -> list[str]:
    """Return the problems of a policy file, one sentence each."""
    try:
        return check_text(str(file), file.name, read_text(file))
    except PolicyError as error:
        return [str(error)]


_BUILT: dict[tuple[str, str], Policy] = {}
"""What was asked for so far, by the hash of its base and its changes: policies are values, and slow to make."""


def _build(base: Policy, changes: dict[str, Any]) -> Policy:
    data = base.model_dump(mode="json")
    for path, value in changes.items():
        *sections, key = path.split(".")
        place = data
        for section in sections:
            place = place[section]
        assert key in place or sections[:1] == ["tools"] or not sections, path
        place[key] = value
    return Policy.model_validate_json(json.dumps(data))


SHADOWED = {
    f"{gate}.mode": "shadow" for gate in ("rules", "narration", "drift", "uncertainty", "evidence", "plan", "critique")
}
"""Every gate that has a mode, in shadow."""
EVERYTHING_OFF = dict.fromkeys(SHADOWED, "off")

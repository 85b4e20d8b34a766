"""Keeping the agent's hands off Foregate's own files when they lie inside the workspace."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from foregate.policy.policy import Policy
from foregate.schemas.errors import UsageError


def guarded(policy: Policy, workspace: Path, own: Iterable[Path]) -> Policy:
    """Return the policy with `own` paths that lie in the workspace among `files.protected`.

    Raises UsageError where the workspace itself lies in one of them: then nothing in it would be the agent's to touch.
    """
    root, found = workspace.resolve(), []
    for path in (path.resolve() for path in own):
        if root == path or path in root.parents:
            raise UsageError(f"the workspace `{root}` lies in Foregate's own folder `{path}`; choose another")
        if root in path.parents:
            found.append(literal(path.relative_to(root).as_posix()))
    if not found:
        return policy
    data = policy.model_dump(mode="json")
    data["files"]["protected"] = list(dict.fromkeys([*data["files"]["protected"], *found]))
    return Policy.model_validate_json(json.dumps(data))


def literal(path: str) -> str:
    """Return a glob for one path; a character that globs read as more than itself stands for any one character."""
    return "".join("?" if char in "*?[]{}!\\" else char for char in path)

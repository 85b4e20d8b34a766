"""What uses a key of the policy: the gates that judge by it, and what else of Foregate keeps to it."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.policy.source.strict_yaml import Path
from foregate.schemas.codes import GATES

_EFFECTS = ("rules", "narration", "drift", "uncertainty", "evidence", "plan", "critique", "approval")
"""The gates that look at what a call would do, and how dangerous that is."""
_MANDATE = ("narration", "drift", "plan", "critique", "approval")
_ASKING = ("plan", "critique", "approval")
USERS: Mapping[str, tuple[str, ...]] = {
    # Each judges by its own section.
    **{gate: (gate,) for gate in GATES},
    "version": (),
    "holds": ("prelude",),
    "limits": ("loop",),
    "limits.needs_per_gate": _ASKING,
    "limits.malformed_calls": ("words of holds", "loop"),
    "limits.verification_rounds": ("postlude",),
    "safety": ("plan", "critique"),
    "scope": ("narration", "plan", "critique", "approval"),
    "rules.list": ("rules", "approval"),
    "plan.binding": ("plan", "critique", "approval"),
    "plan.on_unavailable": ("plan", "approval"),
    "plan.max_bytes": ("planner",),
    "critique.level": ("critique", "plan"),
    "critique.max_bytes": ("critic",),
    "approval.expires": ("questions",),
    "postlude": ("postlude",),
    "postlude.mode": ("loop",),
    "mandate": _MANDATE,
    "mandate.effects": _MANDATE,
    "contract": ("drift", "uncertainty", *_ASKING),
    "scores.risk": ("rules", "critique"),
    "scores.uncertainty": ("uncertainty", "critique"),
    "scores.destructive_words": ("rules", "critique"),
    "scores": ("uncertainty", "critique"),
    "tools": _EFFECTS,
    "sources": _EFFECTS,
    "context": ("loop",),
    "commands": _EFFECTS,
    "commands.wrappers": ("rules",),
    "commands.completes": ("rules",),
    "commands.code": ("rules",),
    "commands.checks": ("uncertainty", "critique"),
    "commands.further_words": ("rules", "approval"),
    "commands.scripts": ("plan", "approval"),
    "commands.open_ended": ("rules", "plan", "approval"),
    "commands.execute_command": ("dialects",),
    "commands.timeout": ("tools",),
    "commands.environment": ("tools",),
    "commands.sandbox": ("sandboxes",),
    "http": ("rules", *_ASKING, "tools"),
    "http.timeout": ("tools",),
    "http.max_bytes": ("tools",),
    "mcp": ("MCP servers",),
    "serving": ("serving",),
    "runtime": ("runtimes",),
    "files": ("evidence", "tools"),
    "files.max_read": ("rules", "tools"),
    "files.max_output": ("tools",),
    "files.protected": ("rules", "tools"),
    "files.secret": ("rules", "masking"),
    "files.runs_by_itself": ("rules",),
    "files.build_output": ("evidence", "plan", "approval"),
    "files.executed_caches": ("sandboxes",),
    "sensitive": ("masking", "rules"),
}
"""By the beginning of a dotted key; the longest one counts."""
_JUDGES = frozenset((*GATES, "prelude", "postlude"))


def list_users(path: Path) -> tuple[str, ...]:
    """Return what uses a key: names of gates, `prelude`, `postlude`, and other parts in words."""
    keys = (".".join(map(str, path[:end])) for end in range(len(path), 0, -1))
    return next((USERS[key] for key in keys if key in USERS), ())


def is_outside_judging(path: Path) -> bool:
    """Whether nothing that judges uses a key, so that judging recorded turns again cannot tell of it."""
    return _JUDGES.isdisjoint(list_users(path))

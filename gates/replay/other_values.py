"""The values that a key of the policy may have beside the one in force."""

from __future__ import annotations

from foregate.policy.source.keys import POLICY
from foregate.policy.source.strict_yaml import Data, Path

LARGEST = 10**9
"""The last value that is tried of a number without a bound of its own."""


def find_domain(path: Path) -> tuple[int, int]:
    """Return the least and the largest value of a number."""
    node = POLICY.find_node(path) or {}
    return int(node.get("minimum", 0)), int(node.get("maximum", LARGEST))


def list_other_words(path: Path, now: Data) -> list[Data]:
    """Return the other position of a switch, or the other words of a choice; nothing for a number."""
    words = [not now] if isinstance(now, bool) else (POLICY.find_node(path) or {}).get("enum", ())
    return [word for word in words if word != now]

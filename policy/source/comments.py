"""The comments that explain keys, read from the default files they stand in."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.policy.source.entry_words import ENTRY_WORDS
from foregate.policy.source.keys import POLICY
from foregate.policy.source.shipped import FOLDER, parse_default
from foregate.policy.source.strict_yaml import Path, format_path


def explain_key(path: Path) -> str:
    """Return what a key of the policy does: its comment, or that of the nearest key around it that has one.

    A key of an entry, such as a rule's, has its own words. The comment of a mapping within a section stands before
    those of its keys.
    """
    if (words := find_entry_words(path)) is not None:
        return words
    comments = parse_default(FOLDER)[1]
    own = next((end for end in range(len(path), 0, -1) if format_path(path[:end]) in comments), 0)
    said = comments.get(format_path(path[:own]), "")
    over = comments.get(format_path(path[: own - 1]), "") if own > 2 else ""
    return join_comments(over, said)


def join_comments(over: str, said: str) -> str:
    """Return the comment of a key behind that of the mapping it stands in, which may be "" for none."""
    return f"{over.rstrip('.')}: {said[:1].lower()}{said[1:]}" if over else said


def find_entry_words(path: Path) -> str | None:
    """Return the words for a key of an entry, whatever the entry is called; None for another key."""
    names = [str(step) for step in path]
    for place in range(1, len(path)):
        outer = POLICY.find_node(tuple(0 if name == "*" else name for name in path[:place]))
        if outer is None or ("items" not in outer and not isinstance(outer.get("additionalProperties"), Mapping)):
            continue
        pattern = ".".join([*names[:place], "*", *names[place + 1 :]])
        if pattern in ENTRY_WORDS:
            return ENTRY_WORDS[pattern]
    return None

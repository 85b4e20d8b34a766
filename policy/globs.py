"""Globs over canonical ids: `*` stays within a path segment, `**` crosses segments; matched by RE2."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2


def matches(pattern: str, name: str, *, fold: bool = False) -> bool:
    """Whether the whole of `name` matches the glob; `fold` compares without regard to case."""
    if fold:
        pattern, name = pattern.casefold(), name.casefold()
    return compiled(pattern).fullmatch(name) is not None


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """Return the RE2 program of a glob."""
    parts, rest = [], pattern
    while rest:
        if rest.startswith("**/"):
            parts.append("(?:.*/)?")
            rest = rest[3:]
        elif rest.startswith("**"):
            parts.append(".*")
            rest = rest[2:]
        else:
            char, rest = rest[0], rest[1:]
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(char) or re2.escape(char))
    return re2.compile("(?s)" + "".join(parts))

"""Sessions that belong together: the tasks a session handed on, and the sessions that go on with it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

_FURTHER = re.compile(r"(.+)-([2-9]|[1-9]\d+)")


def find_root(name: str, known: Collection[str]) -> str:
    """Return the session that another one belongs to: whose task it is, or which it goes on with; else itself."""
    own = name.partition(".")[0]
    further = _FURTHER.fullmatch(own)
    return further[1] if further and further[1] in known else own


def find_families(wanted: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return sessions with all that belong to them, oldest first; `known` are all, newest first.

    Of a task that a session handed on, named in full, only itself and what it handed on.
    """
    names, everything = list(wanted), set(known)
    roots = {find_root(name, everything) for name in names if "." not in name}
    parts = tuple(f"{name}." for name in names if "." in name)
    return [
        name
        for name in reversed(known)
        if find_root(name, everything) in roots or name in names or name.startswith(parts)
    ]

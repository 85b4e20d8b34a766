"""Sessions that belong together: the tasks a session handed on, and the sessions that go on with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from foregate.schemas.session_link import find_root


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

"""Sessions that continue one that has ended: what names it, and how they are named after it."""

from __future__ import annotations

from collections.abc import Collection

from foregate.schemas.late_pattern import compile_late
from foregate.schemas.noun import Noun

# "report-2", "report-17"; "report-1" is a name of its own, since the first session has no number.
_FURTHER = compile_late(r"(.+)-([2-9]|[1-9]\d+)")


class SessionLink(Noun, frozen=True):
    """The session that another one continues: its name, and the number and hash of the event that ended it."""

    session: str
    seq: int
    hash: str


def find_root(name: str, known: Collection[str]) -> str:
    """Return the session that another one belongs to: whose task it is, or which it continues; else itself.

    >>> find_root("a-2.c4.1", {"a", "a-2"})
    'a'
    """
    own = name.partition(".")[0]
    further = _FURTHER.fullmatch(own)
    return further[1] if further and further[1] in known else own


def name_further(root: str, number: int) -> str:
    """Return the name of the session that is the second, third … with which one goes on.

    >>> name_further("20261121-064512-ab3f", 2)
    '20261121-064512-ab3f-2'
    """
    return f"{root}-{number}"


def name_call(session: str, call: str) -> str:
    """Return how the log of another session names a call; one that is named so already keeps its name.

    >>> name_call("a", "c4.1")
    'a:c4.1'
    """
    return call if is_of_other_session(call) else f"{session}:{call}"


def is_of_other_session(call: str) -> bool:
    """Whether a call is named as one of another session."""
    return ":" in call

"""A person as events name them: who ran a session, who answered a question, who labelled a decision."""

from __future__ import annotations

from typing import Literal

from foregate.schemas.noun import Noun
from foregate.schemas.strict_json import scrub

Via = Literal["", "terminal", "program", "editor", "console", "network"]
"""How somebody was there: at a terminal, by a program, in an editor, on the console's page, from another machine."""
_LONGEST = 128


class Identity(Noun, frozen=True):
    """The user and the host as the operating system names them, or as the caller has authenticated them.

    What is unknown is "". Foregate does not check a name that it is given.

    >>> str(Identity("ann", "wharf", "terminal"))
    'ann on wharf (terminal)'
    """

    user: str = ""
    host: str = ""
    via: Via = ""

    def __str__(self) -> str:
        """Return the person in a few words."""
        where = f" on {self.host}" if self.host else ""
        return f"{self.user or 'somebody'}{where}{f' ({self.via})' if self.via else ''}"


def name_person(user: str, host: str = "", via: Via = "") -> Identity:
    """Return the identity of names that come from outside: of one line each, and no longer than names are."""
    return Identity(_shorten(user), _shorten(host), via)


def _shorten(name: str) -> str:
    return " ".join(scrub(name).split())[:_LONGEST]


_UNNAMED = ("person", "program", "the caller's person", "the client's person", "the editor's person")
"""The words of answers that name nobody."""


def identify(by: str, runs: Identity | None) -> Identity | None:
    """Return who an answer is by that says `by`, in a session that `runs` runs.

    >>> str(identify("ann@example.org", Identity("service", "wharf", "program")))
    'ann@example.org on wharf (program)'
    """
    if by in _UNNAMED:
        return runs
    return name_person(by, *((runs.host, runs.via) if runs is not None else ()))

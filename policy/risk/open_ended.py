"""Which commands run whatever their further words say: their first words alone name nothing that runs."""

from __future__ import annotations

from collections.abc import Sequence

from foregate.policy.policy import Policy
from foregate.policy.risk.globs import matches_text

_WHATEVER_FOLLOWS = "..."


def is_open_ended(words: Sequence[str], policy: Policy) -> bool:
    """Whether a command that begins with `words` could go on to run anything, as `commands.open_ended` says.

    >>> is_open_ended(["python3"], policy), is_open_ended(["python3", "-m", "pytest"], policy)
    (True, False)
    """
    return any(is_left_open(entry, words) for entry in policy.commands.open_ended)


def is_left_open(entry: str, words: Sequence[str]) -> bool:
    """Whether one entry says so: its names stand in front, and no word that is no option follows them.

    Words of the entry that begin with a dash are options that may stand in between; with `...` at its end no further
    word helps. Words that end before all names were met leave open whether they follow.
    """
    parts = entry.split()
    whatever = parts[-1:] == [_WHATEVER_FOLLOWS]
    names = [part for part in parts if not part.startswith("-") and part != _WHATEVER_FOLLOWS]
    passed_over = {part for part in parts if part.startswith("-")}
    at = 0
    for place, name in enumerate(names):
        while place and at < len(words) and words[at].startswith("-"):
            at += 1
        if at == len(words):
            return True
        word = words[at] if place else words[at].rpartition("/")[2]
        if not matches_text(name.casefold(), word.casefold()):
            return False
        at += 1
    while at < len(words) and words[at] in passed_over:
        at += 1
    return whatever or at == len(words) or words[at].startswith("-")

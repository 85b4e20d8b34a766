"""Programs that put words they read among those of the command they run, as `xargs` does: what that may come to be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile

from foregate.policy.risk.globs import matches_text

_HAND_ON = frozenset({"xargs", "parallel"})
_VALUED = frozenset({"-a", "-d", "-E", "-I", "-j", "-L", "-n", "-N", "-P", "-s"})
"""Their options that take a value."""
_ENDS = frozenset({";", "&", "&&", "|", "||", "<", ">", ">>", ":::", "::::"})
"""Words behind which no words of the command stand."""


def can_be_completed(wanted: Sequence[str], words: Sequence[str], wrappers: Collection[str]) -> bool:
    """Whether words that are handed on can make a command the wanted one; `wrappers` run what stands behind them."""
    return any(
        _may_become(wanted, own, placeholders)
        for at, word in enumerate(words)
        if _get_name(word) in _HAND_ON
        for placeholders in [("{}", *(words[at + 1 :][1:2] if words[at + 1 : at + 2] == ["-I"] else ()))]
        for own in _list_commands(list(takewhile(lambda one: one not in _ENDS, words[at + 1 :])), wrappers)
    )


def _list_commands(words: Sequence[str], wrappers: Collection[str]) -> Iterator[Sequence[str]]:
    """Yield what may be the command: the first word that is no option, and what a wrapper or a shell line runs.

    It is empty where a wrapper is told what it runs by what is handed on.
    """
    at, has_wrapper = 0, False
    while at < len(words):
        if words[at].startswith("-"):
            at += 1 + (words[at] in _VALUED)
            continue
        yield words[at:]
        if _get_name(words[at]) not in wrappers and not any(mark in words[at] for mark in " ="):
            return
        at, has_wrapper = at + 1, True
    if has_wrapper:
        yield ()


def _may_become(wanted: Sequence[str], own: Sequence[str], placeholders: Sequence[str]) -> bool:
    """Whether the words of a command can become the wanted ones by further words."""
    if own and not matches_text(wanted[0], _get_name(own[0])):
        return any(one in own[0] for one in placeholders)
    named, spare = [word for word in wanted[1:] if not word.startswith("-")], False
    for word in own[1:]:
        if not named or word.startswith("$") or any(one in word for one in placeholders):
            return True
        if not word.startswith("-"):
            if matches_text(named[0], word):
                del named[0]
            elif not spare:
                return False
        spare = word.startswith("-")
    return True


def _get_name(program: str) -> str:
    return program.rsplit("/", 1)[-1]

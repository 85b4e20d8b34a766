"""Programs that put words they read among those of the command they run, as `xargs` does: what that may come to be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile

from foregate.policy.risk.commands import is_wrapper
from foregate.policy.risk.expected_words import compare_words
from foregate.policy.risk.globs import matches_text
from foregate.policy.risk.program_name import get_program_name
from foregate.schemas.late_pattern import compile_late

_ALONE = compile_late(r"-[0rtxpk]+|-[adEIijLlnNPs].+|--(?:null|no-run-if-empty|verbose|exit|keep-order|[\w-]+=.*)")
"""Their options behind which no value stands. Behind any other a word may be its value, or the command."""
_REPLACE = compile_late(r"-[0rtxpk]*[Ii](?P<joined>.*)|--replace=(?P<long>.+)")
"""Options that name the place where words are put."""
_ENDS = frozenset({";", "&", "&&", "|", "||", "<", ">", ">>", ":::", "::::"})
"""Words behind which no words of the command stand."""


def has_handed_words(words: Sequence[str], completes: Collection[str]) -> bool:
    """Whether some program among the words is one that `completes` a command by words it reads."""
    return any(get_program_name(word) in completes for word in words)


def can_be_completed(
    wanted: Sequence[str], words: Sequence[str], completes: Collection[str], wrappers: tuple[str, ...]
) -> bool:
    """Whether programs that complete commands can make one the wanted one; `wrappers` run what stands behind them."""
    for at, word in enumerate(words):
        if get_program_name(word) in completes:
            given = list(takewhile(lambda one: one not in _ENDS, words[at + 1 :]))
            places = _list_places(given)
            if any(_may_become(wanted, own, places) for own in _list_commands(given, wrappers)):
                return True
    return False


def _list_places(words: Sequence[str]) -> list[str]:
    """Return the texts in whose place words are put."""
    found = ["{}"]
    for at, word in enumerate(words):
        if option := _REPLACE.fullmatch(word):
            found += (
                [option["joined"] or option["long"]] if option["joined"] or option["long"] else words[at + 1 : at + 2]
            )
    return found


def _list_commands(words: Sequence[str], wrappers: tuple[str, ...]) -> Iterator[Sequence[str]]:
    """Yield what may be the command: the first word that is no option, and what a wrapper or a shell line runs.

    It is empty where a wrapper is told what it runs by what is handed on.
    """
    has_wrapper = may_be_value = False
    for at, word in enumerate(words):
        if word.startswith("-"):
            may_be_value = _ALONE.fullmatch(word) is None
            continue
        yield words[at:]
        runs_more = is_wrapper(words[at:], wrappers) or any(mark in word for mark in " =")
        if not runs_more and not may_be_value:
            return
        has_wrapper, may_be_value = has_wrapper or runs_more, False
    if has_wrapper:
        yield ()


def _may_become(wanted: Sequence[str], own: Sequence[str], places: Sequence[str]) -> bool:
    """Whether the words of a command can become the wanted ones by further words."""
    if own and not matches_text(wanted[0], get_program_name(own[0])):
        return any(place in own[0] for place in places)
    met = compare_words(
        wanted[1:], own[1:], lambda word: word.startswith("$") or any(place in word for place in places)
    )
    return met != "other"

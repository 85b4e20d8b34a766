"""Which programs a command may run, itself, through others, or by words that are known only when it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from foregate.policy.policy import Policy
from foregate.policy.risk.command_line import Segment
from foregate.policy.risk.commands import has_words_at, is_wrapper, list_words, split_shell_words
from foregate.policy.risk.expected_words import compare_words
from foregate.policy.risk.globs import matches_text
from foregate.policy.risk.handed_on import can_be_completed
from foregate.policy.risk.handed_text import read_handed_texts
from foregate.policy.risk.program_name import get_program_name
from foregate.policy.risk.reading import read_command_line
from foregate.policy.risk.wrapped import UNREAD, UNREADABLE
from foregate.schemas.errors import PolicyError
from foregate.schemas.tool_call import Command

COMPUTED = "$`*?["
"""What in a word tells that only the shell knows what becomes of it, beside braces with several parts."""
RUNNING = ("wrappers", "completes", "code")
"""Keys of `commands` that say what programs run of what they are given: which programs a command may run."""
_ENDS = frozenset(";&|()\n")
"""Of these an operator consists behind which another command begins."""


def can_run(wanted: Sequence[str], command: Command, policy: Policy) -> bool:
    """Whether a command may run a program with leading arguments, itself or somewhere among the words it hands on.

    In a line for a shell, a word that only the shell knows may be any words. Raises PolicyError when its words cannot
    be told apart.
    """
    if command.problem:
        raise PolicyError(command.problem)
    texts = read_handed_texts(command, policy)
    lines = [command, *(Command(shell=one.text) for one in texts if one.text and not one.starts)]
    return any(_can_run_itself(wanted, line, policy) for line in lines)


def _can_run_itself(wanted: Sequence[str], command: Command, policy: Policy) -> bool:
    """Whether a command may run the wanted program by its own words."""
    words = split_shell_words(command.shell) if command.shell else list(command.argv)
    segments = read_command_line(command, policy).segments
    if any(_may_run_computed(wanted, start) for segment in segments for start in _list_starts(segment, policy)):
        return True
    if not command.shell and not is_wrapper(words, policy.commands.wrappers):
        return has_words_at(wanted, words)
    inner = list_words(words)
    if any(has_words_at(wanted, inner, at) or may_have_words_at(wanted, inner, at) for at in range(len(inner))):
        return True
    return can_be_completed(wanted, inner, policy.commands.completes, policy.commands.wrappers)


def is_computed(word: str) -> bool:
    """Whether only the shell knows what becomes of a word, were it not in quotes.

    >>> is_computed("$x"), is_computed("{git,push}"), is_computed("stash@{0}")
    (True, True, False)
    """
    return any(mark in word for mark in COMPUTED) or ("{" in word and ("," in word or ".." in word))


def may_have_words_at(wanted: Sequence[str], words: Sequence[str], at: int) -> bool:
    """Whether the wanted program stands at `at`, and words that only the shell knows may be the wanted ones behind it.

    >>> [may_have_words_at(("git", "push"), words, 0) for words in (["git", "$a"], ["git", "add", "$a"])]
    [True, False]
    """
    return matches_text(wanted[0], get_program_name(words[at])) and _may_become(wanted[1:], words[at + 1 :])


def _may_become(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """Whether words up to the end of their command hold one that is computed, before which nothing speaks against the
    wanted ones."""
    own = takewhile(lambda word: not set(word) <= _ENDS, words)
    return compare_words(wanted, list(own), is_computed) == "open"


def _list_starts(segment: Segment, policy: Policy) -> Iterator[Segment]:
    """Yield a simple command that is not known whole, and behind a wrapper every word with which one may begin."""
    if None not in segment.words or segment is UNREADABLE or segment is UNREAD:
        return
    yield segment
    if is_wrapper([word or "" for word in segment.words], policy.commands.wrappers):
        starts = [at for at, word in enumerate(segment.words) if at and word is None]
        yield from (Segment(segment.words[at:]) for at in starts)


def _may_run_computed(wanted: Sequence[str], segment: Segment) -> bool:
    """Whether a simple command may be the wanted one by words that only the shell knows, its program among them."""
    program, *words = [word if word is not None else "$" for word in segment.words]
    if segment.words[0] is None:
        return segment.splits or _may_become(wanted[1:], words) or has_words_at(("*", *wanted[1:]), ["program", *words])
    return matches_text(wanted[0], get_program_name(program)) and _may_become(wanted[1:], words)

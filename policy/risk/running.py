"""Which programs a command may run, itself, through others, or by words that are known only when it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import takewhile
from typing import Literal

from foregate.policy.policy import Policy
from foregate.policy.risk.command_line import Segment
from foregate.policy.risk.commands import get_program_name, has_words_at, is_wrapper, list_words, split_shell_words
from foregate.policy.risk.globs import matches_text
from foregate.policy.risk.handed_text import read_handed_texts
from foregate.policy.risk.reading import read_command_line
from foregate.policy.risk.wrapped import UNREAD, UNREADABLE
from foregate.schemas.errors import PolicyError
from foregate.schemas.late_pattern import compile_late
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


_ASIDE = ("-", "<", ">")
"""What an option or a redirection begins with: the word behind it may be its value."""


def compare_words(
    wanted: Sequence[str], words: Sequence[str], is_open: Callable[[str], bool]
) -> Literal["open", "other", "end"]:
    """Return what is met first among words: one that `is_open` and may be any, or one that is none of those wanted.

    `end` is neither. Options are passed over, each with at most one value.

    >>> [compare_words(["push"], line.split(), "$a".__eq__) for line in ("-C x $a", "add $a", "-C x push", "")]
    ['open', 'other', 'end', 'end']
    """
    named, may_be_value = [word for word in wanted if not word.startswith("-")], False
    for word in words:
        if is_open(word):
            return "open"
        if not word.startswith(_ASIDE) and named:
            if matches_text(named[0], word):
                del named[0]
            elif not may_be_value and not word.isdigit():
                return "other"
        may_be_value = word.startswith(_ASIDE)
    return "end"


# "-0", "-n4", "--verbose".
_ALONE = compile_late(r"-[0rtxpk]+|-[adEIijLlnNPs].+|--(?:null|no-run-if-empty|verbose|exit|keep-order|[\w-]+=.*)")
"""Their options behind which no value stands. Behind any other a word may be its value, or the command."""
# "-I{}", "--replace={}".
_REPLACE = compile_late(r"-[0rtxpk]*[Ii](?P<joined>.*)|--replace=(?P<long>.+)")
"""Options that name the place where words are put."""
_OPERATORS = frozenset({";", "&", "&&", "|", "||", "<", ">", ">>", ":::", "::::"})
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
            given = list(takewhile(lambda one: one not in _OPERATORS, words[at + 1 :]))
            places = _list_places(given)
            if any(_can_become(wanted, own, places) for own in _list_commands(given, wrappers)):
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


def _can_become(wanted: Sequence[str], own: Sequence[str], places: Sequence[str]) -> bool:
    """Whether the words of a command can become the wanted ones by further words."""
    if own and not matches_text(wanted[0], get_program_name(own[0])):
        return any(place in own[0] for place in places)
    met = compare_words(
        wanted[1:], own[1:], lambda word: word.startswith("$") or any(place in word for place in places)
    )
    return met != "other"

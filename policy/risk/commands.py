"""What a command would do and what it runs, from its words alone: pure, and anything not understood is a change."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice

from foregate.policy.commands_section import CommandEntry
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import matches_text
from foregate.schemas.errors import PolicyError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_call import Command
from foregate.schemas.tool_spec import Effect

OPERATORS = (";", "&", "&&", "|", "||", "<", ">", ">>", "<<", "<<<", "2>", "2>>", "&>")
_UNLISTED = CommandEntry(options=("--",))
_LINE = " \t\n;|&()`<>"
# "--call=rm a.txt", "of=/dev/sda": the value may hold words of a command.
_VALUE = compile_late(r"[\w.+-]+=(.*)", re.ASCII | re.DOTALL)
_MOST_WORDS = 4096
_STARTS = ("$(", "`", ">", "2>", "&>")
_FOLLOWS = compile_late(r"\+[0-9]*[bcl]?f")
"""The old way of writing `tail -f`, which never ends, without a dash: `+5f`."""


def effect_of_command(command: Command, policy: Policy) -> Effect:
    """Return OBSERVATION for a listed program, by its bare name, with listed options only; else EXECUTE."""
    if command.problem or command.shell or not command.argv:
        return Effect.EXECUTE
    program, *words = command.argv
    entry = policy.commands.read_only.get(program)
    # A path may lead to another program of the same name.
    observes = "/" not in program and entry is not None and is_observation(entry, words)
    return Effect.OBSERVATION if observes else Effect.EXECUTE


def can_read_beneath(command: Command, policy: Policy) -> bool:
    """Whether a command that only observes reads what is in folders, by an option its entry lists as `beneath`."""
    entry = policy.commands.read_only.get(command.argv[0]) if command.argv else None
    return entry is not None and any(word in entry.beneath for word in command.argv[1:])


def find_operands(command: Command, policy: Policy) -> list[str]:
    """Return the words of a command that are neither options nor the values of options its entry lists."""
    entry = policy.commands.read_only.get(command.argv[0], _UNLISTED) if command.argv else _UNLISTED
    found: list[str] = []
    rest = iter(command.argv[1:])
    for word in rest:
        if word == "--" and word in entry.options:
            return [*found, *rest]
        if word in entry.valued:
            next(rest, None)
        elif not word.startswith("-") or word == "-":
            found.append(word)
    return found


def is_observation(entry: CommandEntry, words: list[str]) -> bool:
    """Whether every word is a listed option, the value of one, the one subcommand, or an allowed operand.

    Words that only a shell would give a meaning are refused: whoever wrote them meant more than one command.
    """
    if any(map(is_shell_syntax, words)):
        return False
    operands, rest = 0, iter(words)
    marked = options_end = False
    for word in rest:
        if word == "--" and not options_end:
            # Not every program takes what follows for operands: find still reads `-exec` there, and runs it.
            if marked:
                return False
            marked, options_end = True, word in entry.options
        elif word.startswith("-") and word != "-" and not options_end:
            if word in entry.valued:
                if next(rest, None) is None:
                    return False
            elif word not in entry.options and not has_attached_value(entry, word):
                return False
        elif not options_end and _FOLLOWS.fullmatch(word):
            return False
        else:
            operands += 1
            if operands == 1 and entry.subcommands:
                if word not in entry.subcommands or marked:
                    return False
            elif not entry.operands:
                return False
    return operands > 0 or not entry.subcommands


def has_attached_value(entry: CommandEntry, word: str) -> bool:
    """Whether a word is a valued option with its value attached: `--lines=5`, `-n5` with a number, or `-5` alone."""
    if "-#" in entry.options and word[1:].isascii() and word[1:].isdigit():
        return True
    name, equals, _ = word.partition("=")
    if word.startswith("--"):
        return bool(equals) and name in entry.valued
    return word[:2] in entry.valued and word[2:].isascii() and word[2:].isdigit()


def is_shell_syntax(word: str) -> bool:
    """Whether a word is shell syntax, which has no meaning in an argument vector, or could not be passed at all."""
    return word in OPERATORS or word.startswith(_STARTS) or word.endswith(";") or "\n" in word or "\0" in word


def has_words_at(wanted: Sequence[str], words: Sequence[str], at: int = 0) -> bool:
    """Whether the wanted words stand at `at`; options between them, each with at most one value, are passed over.

    A wanted option may stand anywhere behind: `git push origin --force` is `git push --force`.
    """
    if at >= len(words) or not matches_text(wanted[0], get_program_name(words[at])):
        return False
    at += 1
    options = [word for word in wanted[1:] if word.startswith("-")]
    if not all(any(matches_text(option, word) for word in words[at:]) for option in options):
        return False
    for word in (word for word in wanted[1:] if not word.startswith("-")):
        spare = 0
        while at < len(words) and not matches_text(word, words[at]):
            if words[at].startswith("-"):
                spare = 1
            elif spare:
                spare = 0
            else:
                return False
            at += 1
        if at >= len(words):
            return False
        at += 1
    return True


@lru_cache(maxsize=16)
def index_entries(entries: tuple[str, ...]) -> tuple[Mapping[str, list[str]], list[str]]:
    """Return entries of leading words by their program, and those whose program is a pattern."""
    named: dict[str, list[str]] = {}
    others = []
    for leading in entries:
        program = leading.split()[0]
        if "*" in program or "?" in program:
            others.append(leading)
        else:
            named.setdefault(program, []).append(leading)
    return named, others


def is_wrapper(words: Sequence[str], wrappers: tuple[str, ...]) -> bool:
    """Whether words begin with those of a command that runs another one.

    >>> [is_wrapper(line.split(), ("env", "docker run")) for line in ("env ls", "docker --debug run x", "docker ps")]
    [True, True, False]
    """
    named, others = index_entries(wrappers)
    entries = (*named.get(get_program_name(words[0]), ()), *others) if words else ()
    return any(has_words_at(entry.split(), words) for entry in entries)


def list_words(words: Sequence[str]) -> list[str]:
    """Return all words, and the words inside those that are command lines themselves, as after `sh -c`, or hold one as
    their value, as `--call='a b'`."""
    found: list[str] = []
    open_words = list(reversed(words))
    while open_words:
        word = open_words.pop()
        found.append(word)
        if len(found) > _MOST_WORDS:
            raise PolicyError(f"the command has more than {_MOST_WORDS} words")
        if any(char in word for char in _LINE):
            value = _VALUE.fullmatch(word)
            inside = [value[1]] if value else split_shell_words(word)
            if inside != [word]:
                open_words.extend(reversed(inside))
    return found


def split_shell_words(line: str) -> list[str]:
    """Return the words of a shell line, operators apart; raise PolicyError for one whose quotes do not close."""
    lexer = shlex.shlex(line.replace("\\\n", ""), posix=True, punctuation_chars="();<>|&`\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    # Else all behind a "#" would be passed over, unread.
    lexer.commenters = ""
    try:
        return list(islice(lexer, _MOST_WORDS + 1))
    except ValueError:
        raise PolicyError("the quotes of the shell line do not close") from None


_WHATEVER_FOLLOWS = "..."


def is_open_ended(words: Sequence[str], policy: Policy) -> bool:
    """Whether a command that begins with `words` could go on to run anything, as `commands.open_ended` says.

    >>> is_open_ended(["python3"], policy), is_open_ended(["python3", "-m", "pytest"], policy)
    (True, False)
    """
    return any(is_left_open(entry, words) for entry in policy.commands.open_ended)


@lru_cache(maxsize=4096)
def _read_entry(entry: str) -> tuple[tuple[str, ...], frozenset[str], bool]:
    """Return the names and the options of an entry of `commands.open_ended`, and whether no further word helps."""
    parts = entry.split()
    names = tuple(part for part in parts if not part.startswith("-") and part != _WHATEVER_FOLLOWS)
    return names, frozenset(part for part in parts if part.startswith("-")), parts[-1:] == [_WHATEVER_FOLLOWS]


def is_left_open(entry: str, words: Sequence[str]) -> bool:
    """Whether one entry says so: its names stand in front, and no word that is no option follows them.

    Words of the entry that begin with a dash are options that may stand in between; with `...` at its end no further
    word helps. Words that end before all names were met leave open whether they follow.
    """
    names, passed_over, whatever = _read_entry(entry)
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


def get_program_name(program: str) -> str:
    """Return the last component of a program's path.

    >>> get_program_name("/usr/bin/git")
    'git'
    """
    return program.rsplit("/", 1)[-1]

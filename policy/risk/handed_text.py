"""Texts that a command hands to a program which runs them: `sh -c`, `python3 -c`, what a shell reads. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import re2

from foregate.policy.policy import Policy
from foregate.policy.risk.command_line import STREAM, Segment, parse_command_line
from foregate.policy.risk.commands import get_program_name, index_entries, is_wrapper, list_words, split_shell_words
from foregate.policy.risk.globs import matches_text
from foregate.policy.risk.reading import read_command_line
from foregate.policy.risk.request import remember
from foregate.policy.risk.wrapped import UNREAD
from foregate.schemas.errors import PolicyError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_call import Command

_OPERANDS, _READS, _ALWAYS_READS = "...", "-", "<"
_STREAMS = ("-", "/dev/stdin", "/proc/self/fd/0", f"{STREAM}0")
# "-xf": short options in one word; the last may take the text.
_CLUSTER = compile_late(r"-[A-Za-z0-9]*", re.ASCII)
_MOST = 64
"""Texts of one command that are read; what further ones say is unknown."""


class HandedText(NamedTuple):
    """A text that a program runs, None where only the shell knows it. One of `starts` (RE2) in it tells that it starts
    a program, or hides what it does; without any it is a line for a shell."""

    text: str | None
    starts: tuple[str, ...]


_UNKNOWN = HandedText(None, ())


class _Entry(NamedTuple):
    """An entry of `commands.code`: leading words, options whose value is such a text, and whether operands are, what
    it reads where no operand names a script is, or what it reads in any case."""

    names: tuple[str, ...]
    options: tuple[str, ...]
    operands: bool
    reads: bool
    always: bool


@lru_cache(maxsize=1024)
def _read_entry(entry: str) -> _Entry:
    parts = entry.split()
    marks = (_OPERANDS, _READS, _ALWAYS_READS)
    names = tuple(part for part in parts if not part.startswith("-") and part not in marks)
    options = tuple(part for part in parts if part.startswith("-") and part != _READS)
    return _Entry(names, options, *(mark in parts for mark in marks))


def list_handed_texts(segment: Segment, policy: Policy) -> Iterator[HandedText]:
    """Yield the texts that a simple command hands to programs of `commands.code`, itself or behind a wrapper.

    >>> from foregate.policy.source.load import default_policy
    >>> [one.text for one in list_handed_texts(Segment(("git", "rebase", "-x", "make test")), default_policy())]
    ['make test']
    """
    words = segment.words
    wraps = is_wrapper([word or "" for word in words], policy.commands.wrappers)
    named, others = index_entries(tuple(policy.commands.code))
    for at, word in enumerate(words if wraps else words[:1]):
        for leading in (*named.get(get_program_name(word), ()), *others) if word else ():
            entry = _read_entry(leading)
            if matches_text(entry.names[0], get_program_name(word or "")):
                starts = policy.commands.code[leading]
                found = _list_texts(entry, words[at + 1 :], segment.input, is_line=not starts)
                yield from (HandedText(text, starts) for text in found)


def _list_texts(
    entry: _Entry, words: Sequence[str | None], given: str | None, *, is_line: bool
) -> Iterator[str | None]:
    """Yield the texts among the words behind a program, and what is `given` to it where it runs that."""
    rest = _skip_names(entry.names[1:], words)
    if rest is not None and entry.reads and not entry.operands:
        yield from _list_before_script(entry, rest, given, is_line=is_line)
    elif rest is not None:
        yield from _list_anywhere(entry, rest, given, is_line=is_line)


def _list_before_script(
    entry: _Entry, words: Sequence[str | None], given: str | None, *, is_line: bool
) -> Iterator[str | None]:
    """Yield the texts of a program that runs one of an option, a script, or else what it reads; further words are not
    its own."""
    for at, word in enumerate(words):
        if word is not None and _is_option(word):
            values = [given if value in _STREAMS else value for value in _list_values(entry, words, at)]
            yield from values
            if values:
                return
            if is_line and word == "-s":
                break
        elif word is None or not word.isdigit():
            # Digits are the descriptor in front of a redirection.
            if word is not None and word.startswith(STREAM):
                yield None
            if word not in _STREAMS:
                return
            break
    if given != "":
        yield given


def _list_anywhere(
    entry: _Entry, words: Sequence[str | None], given: str | None, *, is_line: bool
) -> Iterator[str | None]:
    """Yield the texts of a program whose options may stand anywhere, or all of whose operands are such."""
    operands: list[str | None] = []
    for at, word in enumerate(words):
        if word is not None and _is_option(word):
            yield from (given if value in _STREAMS else value for value in _list_values(entry, words, at))
        else:
            operands.append(word)
    if entry.operands and operands:
        known = [word for word in operands if word is not None]
        yield from ([" ".join(known)] if len(known) == len(operands) else [None]) if is_line else operands
    if given != "" and (entry.always or (entry.reads and not operands)):
        yield given


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _skip_names(names: Sequence[str], words: Sequence[str | None]) -> Sequence[str | None] | None:
    """Return the words behind further leading ones, None where these do not stand there; options may, each with at most
    one value."""
    at = 0
    for name in names:
        spare = False
        while at < len(words) and not _is_named(name, words[at]):
            is_option = (words[at] or "").startswith("-")
            if not is_option and not spare:
                return None
            spare, at = is_option, at + 1
        if at == len(words):
            return None
        at += 1
    return words[at:]


def _is_named(name: str, word: str | None) -> bool:
    return name == "*" if word is None else matches_text(name, word) and not word.startswith("-")


def _list_values(entry: _Entry, words: Sequence[str | None], at: int) -> Iterator[str | None]:
    """Yield the texts that the word at a place gives as an option: what is attached to it, and the next word."""
    word, behind = words[at] or "", words[at + 1 : at + 2]
    name, equals, value = word.partition("=")
    for option in entry.options:
        if name == option:
            yield from [value] if equals else behind
        elif len(option) == 2 and not word.startswith("--"):
            before, found, attached = word.partition(option[1])
            if found and _CLUSTER.fullmatch(before):
                yield from [attached] if attached else []
                yield from behind


@remember
def read_handed_texts(command: Command, policy: Policy) -> tuple[HandedText, ...]:
    """Return the texts that a command hands to programs, and those that lines among them hand on, each once."""
    found: dict[HandedText, None] = {}
    lines = [command] if policy.commands.code else []
    while lines:
        for one in _list_of_line(lines.pop(), policy):
            if len(found) > _MOST:
                return (*found, _UNKNOWN)
            if one.text and not one.starts and one not in found:
                lines.append(Command(shell=one.text))
            found[one] = None
    return tuple(found)


def _list_of_line(command: Command, policy: Policy) -> Iterator[HandedText]:
    """Yield the texts that one line hands to programs; what of it is not understood may be any."""
    if command.shell and parse_command_line(command.shell).problem and _names_code(command.shell, policy):
        yield _UNKNOWN
    for segment in read_command_line(command, policy).segments:
        yield from [_UNKNOWN] if segment is UNREAD else list_handed_texts(segment, policy)


def runs_unread(command: Command, policy: Policy) -> bool:
    """Whether a command runs a text that nobody can read beforehand: one that only the shell knows, or one in another
    language that starts a program or hides what it does. So may a line that is not understood."""
    return any(
        text is None or any(_compile(start).search(text) for start in starts)
        for text, starts in read_handed_texts(command, policy)
    )


def _names_code(line: str, policy: Policy) -> bool:
    """Whether a line that is not understood names a program that runs texts."""
    named, others = index_entries(tuple(policy.commands.code))
    try:
        names = {get_program_name(word) for word in list_words(split_shell_words(line))}
    except PolicyError:
        return True
    return any(name in named or any(matches_text(one.split()[0], name) for one in others) for name in names)


@lru_cache(maxsize=256)
def _compile(pattern: str) -> re2._Regexp:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)

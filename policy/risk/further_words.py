"""Which further words a permission for leading words of a command may leave open: plain ones, and no other. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from foregate.policy.policy import Policy
from foregate.policy.risk.commands import is_open_ended, is_wrapper
from foregate.policy.risk.globs import matches_text
from foregate.policy.risk.reading import CommandReading, read_command_line
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_call import Command

PLAIN = "plain words (no options, no `..`, none of `:=+@`)"
"""What a further word may be, as a sheet says it: nothing that could be an option, an address or a setting."""
_PLAIN = compile_late(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.-]+)*", re.ASCII)
_ANY = "*"


def split_plain(command: Command, reading: CommandReading) -> list[str]:
    """Return the words of a line that is one program and its arguments and nothing else, none for any other line.

    Neither a second command nor a redirection, a variable in front or a program named by a path is in it.
    """
    try:
        words = list(command.argv) or shlex.split(command.shell)
    except ValueError:
        return []
    alone = len(reading.segments) == 1 and list(reading.segments[0].words) == words and "/" not in words[0]
    return words if alone and not (reading.redirections or reading.segments[0].variables or command.problem) else []


def has_further_words(command: Command, leading: Sequence[str], policy: Policy, *, closed: bool = False) -> bool:
    """Whether a command is one program whose words begin with `leading`, all further ones being plain.

    Where they are `closed` there are no further ones.
    """
    words = split_plain(command, read_command_line(command, policy))
    further = words[len(leading) :]
    return words[: len(leading)] == [*leading] and not (closed and further) and all(map(is_plain, further))


def is_plain(word: str) -> bool:
    """Whether a word can be nothing but a name: no option, no address, no setting, no way up.

    >>> [is_plain(word) for word in ("main", "v1.2", "a/b", "-f", ":main", "+main", "a=b", "../x", "/x", "u@h")]
    [True, True, True, False, False, False, False, False, False, False]
    """
    return _PLAIN.fullmatch(word) is not None and ".." not in word


def find_leading_words(command: Command, policy: Policy) -> tuple[str, ...]:
    """Return the words of a command that stay where its further words are left open, () where none may be."""
    words = split_plain(command, read_command_line(command, policy))
    for entry in policy.commands.further_words:
        wanted = entry.split()
        leading = words[: len(wanted)]
        if is_entry(wanted, leading) and all(map(is_plain, words[len(wanted) :])):
            return tuple(leading)
    return ()


def is_entry(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """Whether words are those of an entry of `commands.further_words`, where `*` alone is any plain word."""
    if len(words) != len(wanted):
        return False
    pairs = zip(wanted, words, strict=True)
    return all(is_plain(word) if one == _ANY else matches_text(one, word) for one, word in pairs)


def explain_open_words(words: Sequence[str], policy: Policy) -> str:
    """Return why further words must not be left open behind these, "" where they may: "" also without any."""
    if not words or any(is_entry(entry.split(), words) for entry in policy.commands.further_words):
        return ""
    if "/" in words[0] or is_wrapper(words, policy.commands.wrappers) or is_open_ended(words, policy):
        return "a command that begins so can go on to run anything; permit it with all its words"
    return ""

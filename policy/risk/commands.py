"""What a command would do, from its parsed shape alone: pure, and anything not understood is a change."""

from __future__ import annotations

import re

from foregate.policy.policy import CommandEntry, Policy
from foregate.schemas.effect import Effect
from foregate.schemas.survey import Command

_OPERATORS = (";", "&", "&&", "|", "||", "<", ">", ">>", "<<", "<<<", "2>", "2>>", "&>")
_STARTS = ("$(", "`", ">", "2>", "&>")
_FOLLOWS = re.compile(r"\+[0-9]*[bcl]?f")
"""The old way of writing `tail -f`, which never ends, without a dash: `+5f`."""


def effect_of_command(command: Command, policy: Policy) -> Effect:
    """Return OBSERVATION for a listed program, by its bare name, with listed options only; else EXECUTE."""
    if command.problem or command.shell or not command.argv:
        return Effect.EXECUTE
    program, *words = command.argv
    entry = policy.commands.read_only.get(program)
    if "/" in program or entry is None or not is_observation(entry, words):
        return Effect.EXECUTE
    return Effect.OBSERVATION


def can_read_beneath(command: Command, policy: Policy) -> bool:
    """Whether a command that only observes reads what is in folders, by an option its entry lists as `beneath`."""
    entry = policy.commands.read_only.get(command.argv[0]) if command.argv else None
    return entry is not None and any(word in entry.beneath for word in command.argv[1:])


def find_operands(command: Command, policy: Policy) -> list[str]:
    """Return the words of a command that are neither options nor the values of options its entry lists."""
    entry = policy.commands.read_only.get(command.argv[0]) if command.argv else None
    found: list[str] = []
    rest = iter(command.argv[1:])
    for word in rest:
        if word == "--" and (entry is None or word in entry.options):
            return [*found, *rest]
        if entry is not None and word in entry.valued:
            next(rest, None)
        elif not word.startswith("-") or word == "-":
            found.append(word)
    return found


def is_observation(entry: CommandEntry, words: list[str]) -> bool:
    """Whether every word is a listed option, the value of one, the one subcommand, or an allowed operand.

    Words that only a shell would give a meaning are refused: whoever wrote them meant more than one command.
    """
    operands = 0
    rest = iter(words)
    marked = options_end = False
    for word in rest:
        if is_shell_syntax(word):
            return False
        if word == "--" and not options_end:
            # Not every program takes what follows for operands: find still reads `-exec` there, and runs it.
            if marked:
                return False
            marked, options_end = True, word in entry.options
        elif word.startswith("-") and word != "-" and not options_end:
            if word in entry.valued:
                value = next(rest, None)
                if value is None or is_shell_syntax(value):
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
    return word in _OPERATORS or word.startswith(_STARTS) or word.endswith(";") or "\n" in word or "\0" in word

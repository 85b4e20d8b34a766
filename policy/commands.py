"""What a command would do, from its parsed shape alone: pure, and anything not understood is a change."""

from __future__ import annotations

from foregate.policy.policy import CommandEntry, Policy
from foregate.schemas.effect import Effect
from foregate.schemas.survey import Command


def effect_of(command: Command, policy: Policy) -> Effect:
    """Return OBSERVATION for a listed program with listed options only, else EXECUTE."""
    if command.problem or command.shell or not command.argv:
        return Effect.EXECUTE
    program, *words = command.argv
    entry = policy.commands.read_only.get(program)
    if entry is None or not only_observes(entry, words):
        return Effect.EXECUTE
    return Effect.OBSERVATION


def only_observes(entry: CommandEntry, words: list[str]) -> bool:
    """Whether every word is a listed option, the value of one, or an allowed operand."""
    rest = iter(words)
    for word in rest:
        if word == "--":
            return entry.operands or next(rest, None) is None
        if word.startswith("-") and word != "-":
            if word in entry.valued:
                if next(rest, None) is None:
                    return False
            elif word not in entry.options:
                return False
        elif entry.subcommands:
            if word not in entry.subcommands:
                return False
        elif not entry.operands:
            return False
    return True

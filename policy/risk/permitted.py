"""Which calls a permission covers: those it was shown for, or less. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from decimal import Decimal

from foregate.policy.policy import Policy
from foregate.policy.risk.commands import is_open_ended, is_wrapper
from foregate.policy.risk.declared import find_tool_entry, list_chosen
from foregate.policy.risk.globs import matches, matches_text
from foregate.policy.risk.reading import CommandReading, read_command_line
from foregate.schemas import strict_json
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.permission import Permission, PermittedValue
from foregate.schemas.sandbox import Access
from foregate.schemas.tool_call import CallFacts, Command, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind, ToolSpec, hash_definition
from foregate.schemas.turn import Turn
from foregate.schemas.value import ArgumentValue, Value, format_key, read_forms, read_value

TIERS = ("", "none", "limited", "full")
"""What may hold a command, from the weakest to the strongest."""
SHOWN = 80
"""Characters of a value or a name that words show."""
WRITES = (Effect.CREATE, Effect.EDIT)
"""What may be permitted of files that are not named one by one, and of what a command has changed."""


def find_permission(facts: CallFacts, turn: Turn, policy: Policy) -> Permission | None:
    """Return a permission that covers a call of the turn, None where none does."""
    if facts.survey.problem or facts.unspoken:
        return None
    return next((one for one in turn.permissions if is_covered(facts, one, turn.now, policy)), None)


def is_covered(facts: CallFacts, permission: Permission, now: str, policy: Policy) -> bool:
    """Whether a permission, exactly as it was shown, covers a call at the UTC time `now`."""
    if permission.until and now > permission.until:
        return False
    if permission.tool != facts.call.name or facts.spec is None or not is_effect_covered(facts, permission):
        return False
    if permission.definition != hash_definition(facts.spec):
        return False
    if permission.section and permission.section != hash_section(facts.spec, policy):
        return False
    if permission.digest and permission.digest != facts.call.digest:
        return False
    return (
        permission.applied == bool(facts.survey.changes)
        and is_command_covered(facts, permission, policy)
        and are_targets_covered(facts, permission)
        and are_values_covered(facts, permission, policy)
    )


def is_effect_covered(facts: CallFacts, permission: Permission) -> bool:
    """Whether a call does what is permitted; who may edit files of a folder may create them there."""
    if permission.effect == facts.effect.value:
        return True
    is_wide = permission.applied or bool(permission.patterns)
    return is_wide and permission.effect == Effect.EDIT.value and facts.effect in WRITES


def is_command_covered(facts: CallFacts, permission: Permission, policy: Policy) -> bool:
    """Whether the command of a call has these words, this folder and these scripts, and wants no more outside."""
    command = facts.survey.command
    if command is None:
        return not (permission.argv or permission.shell or permission.leading)
    if (command.folder, command.scripts) != (permission.folder, permission.scripts):
        return False
    if TIERS.index(facts.survey.work) < TIERS.index(permission.tier):
        return False
    wanted = list_access(command, policy) if permission.section else command.access
    if not {*wanted} <= {*permission.access}:
        return False
    if permission.leading:
        return has_further_words(command, permission.leading, policy, closed=permission.closed)
    return (command.argv, command.shell) == (permission.argv, permission.shell)


def list_access(command: Command, policy: Policy) -> tuple[Access, ...]:
    """Return all that a command is given of the world outside: what it requests, and what its words want."""
    return read_command_line(command, policy).access


def are_targets_covered(facts: CallFacts, permission: Permission) -> bool:
    """Whether all that a call changes is permitted by name, or as a file of a permitted folder."""
    changed = list_targets(facts)
    if not changed and (permission.targets or permission.patterns):
        return False
    return all(is_target_covered(resource, permission) for resource in changed)


def is_target_covered(resource: SurveyedResource, permission: Permission) -> bool:
    """Whether one thing that a call changes is permitted.

    What is protected for a reason of its own, and what is no file, is permitted by its name alone.
    """
    if name_target(resource) in permission.targets:
        return not permission.applied or is_plain_change(resource)
    if resource.kind is not ResourceKind.FILE or resource.protected or resource.access not in WRITES:
        return False
    return any(matches(pattern, resource.id) for pattern in permission.patterns)


def is_plain_change(resource: SurveyedResource) -> bool:
    """Whether a command has created or edited something unprotected, and an undo brings back what was there."""
    return resource.access in WRITES and not resource.protected and (resource.restorable or not resource.loses)


def are_values_covered(facts: CallFacts, permission: Permission, policy: Policy) -> bool:
    """Whether all values of a call are permitted, and all else that its arguments say beside free texts.

    A call that leaves out an argument that was permitted may do more for it, and is another call.
    """
    values = facts.survey.values or ()
    if not all(any(is_value_covered(value, one) for one in permission.values) for value in values):
        return False
    chosen = list_other_values(facts, policy)
    permitted = {(one.path, one.key) for one in permission.values}
    if not all((one.path, one.key) in permitted for one in chosen):
        return False
    given = {*(value.path for value in values), *(one.path for one in chosen)}
    return facts.survey.command is not None or {one.path for one in permission.values} <= given


def list_other_values(facts: CallFacts, policy: Policy) -> list[PermittedValue]:
    """Return what the arguments of a call say beside its values and free texts: choices, nulls, empty lists.

    A command is told by its words, and a call whose values nobody listed by its targets or as a whole.
    """
    values, spec = facts.survey.values, facts.spec
    if values is None or facts.survey.command is not None or spec is None:
        return []
    paths = {value.path for value in values}
    chosen = list_chosen(facts.call.arguments or {}, paths, spec, policy)
    read = ((path, text, read_value(text) or Value("words", text.casefold())) for path, text in chosen)
    return [PermittedValue(path, format_key(value), text[:SHOWN]) for path, text, value in read]


def is_value_covered(value: ArgumentValue, permitted: PermittedValue) -> bool:
    """Whether a value is the permitted one of its argument, or no more than that.

    What is left open is so for what somebody who counts has said, and never for what only text from outside did.
    """
    if value.path != permitted.path:
        return False
    if permitted.any:
        return value.source not in ("outside", "unclear") and value.role in ("target", "amount", "value")
    if value.key == permitted.key:
        return True
    return permitted.at_most and 0 <= read_number(value.text) <= read_number(permitted.text)


def read_number(text: str) -> Decimal:
    """Return the number a text says, -1 where it says none."""
    numbers: Iterable[str] = (form.normal for form in read_forms(text) if form.kind == "number")
    return Decimal(next(iter(numbers), "-1"))


def list_targets(facts: CallFacts) -> list[SurveyedResource]:
    """Return what a call changes; nothing for a command before it has run, whose words say what it is."""
    if facts.survey.command is not None and not facts.survey.changes:
        return []
    return list(facts.targets)


def name_target(resource: SurveyedResource) -> str:
    """Return a thing as a permission names it."""
    return f"{resource.kind.value}:{resource.id}"


def hash_section(spec: ToolSpec, policy: Policy) -> str:
    """Return a hash over what the policy says of all calls of a tool: who is asked at all, and what the tool does.

    Where the operator changes that, a permission was given for something else.
    """
    entry = find_tool_entry(spec, policy)
    said = {
        # Read whole, not only compared.
        "mode": str(policy.approval.mode),
        "reads": str(policy.approval.reads),
        "mandate": str(policy.mandate.mode),
        "entry": entry.model_dump(mode="json", exclude_none=True) if entry is not None else None,
    }
    return strict_json.digest(said)[:16]


PLAIN = "plain words (no options, no `..`, none of `:=+@`)"
"""What a further word may be, as a sheet says it: nothing that could be an option, an address or a setting."""
# "src/a.py", "build"; "-rf" and "a=b" are none.
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

"""Which calls a permission covers: exactly those it was shown for, or less. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from foregate.schemas.permission import Permission, PermittedValue
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import hash_definition
from foregate.schemas.turn import Turn
from foregate.schemas.value import ArgumentValue, read_forms

_TIERS = ("", "none", "limited", "full")


def find_permission(facts: CallFacts, turn: Turn) -> Permission | None:
    """Return a permission that covers a call of the turn, None where none does.

    What a sandbox has changed is covered by none: that is seen only afterwards.
    """
    if facts.survey.problem or facts.unspoken or facts.survey.changes:
        return None
    return next((one for one in turn.permissions if is_covered(facts, one, turn.now)), None)


def is_covered(facts: CallFacts, permission: Permission, now: str) -> bool:
    """Whether a permission, exactly as it was shown, covers a call at the UTC time `now`."""
    if permission.until and now > permission.until:
        return False
    if (permission.tool, permission.effect) != (facts.call.name, facts.effect.value) or facts.spec is None:
        return False
    if permission.definition != hash_definition(facts.spec):
        return False
    if permission.digest and permission.digest != facts.call.digest:
        return False
    return (
        is_command_covered(facts, permission)
        and {*list_targets(facts)} <= {*permission.targets}
        and all(any(is_value_covered(value, one) for one in permission.values) for value in facts.survey.values or ())
    )


def is_command_covered(facts: CallFacts, permission: Permission) -> bool:
    """Whether the command of a call has these words, this folder and these scripts, and wants no more outside."""
    command = facts.survey.command
    if command is None:
        return not permission.argv and not permission.shell
    same = (command.argv, command.shell, command.folder, command.scripts)
    return (
        same == (permission.argv, permission.shell, permission.folder, permission.scripts)
        and {*command.access} <= {*permission.access}
        and _TIERS.index(facts.survey.work) >= _TIERS.index(permission.tier)
    )


def is_value_covered(value: ArgumentValue, permitted: PermittedValue) -> bool:
    """Whether a value is the permitted one of its argument, or no more than that."""
    if value.path != permitted.path:
        return False
    if value.key == permitted.key:
        return True
    return permitted.at_most and 0 <= _read_number(value.text) <= _read_number(permitted.text)


def _read_number(text: str) -> Decimal:
    numbers: Iterable[str] = (form.normal for form in read_forms(text) if form.kind == "number")
    return Decimal(next(iter(numbers), "-1"))


def list_targets(facts: CallFacts) -> list[str]:
    """Return what a call changes, as `kind:id`; nothing for a command, whose words say what it is."""
    if facts.survey.command is not None:
        return []
    return [f"{resource.kind.value}:{resource.id}" for resource in facts.targets]

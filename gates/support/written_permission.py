"""A permission that a person writes by hand, or makes narrower: checked as strictly as one that a sheet offers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from foregate.gates.support.permitting import name_permission, name_rule
from foregate.policy.policy import Policy
from foregate.policy.risk.access import parse_access
from foregate.policy.risk.declared import find_tool_entry
from foregate.policy.risk.facts import effect_of_tool
from foregate.policy.risk.globs import matches
from foregate.policy.risk.permitted import (
    TIERS,
    WRITES,
    explain_open_words,
    hash_section,
    is_plain,
    list_access,
    read_number,
    split_plain,
)
from foregate.policy.risk.reading import list_scripts, read_command_line
from foregate.schemas.errors import AccessError, UsageError
from foregate.schemas.permission import Permission, PermittedValue
from foregate.schemas.tool_call import Command
from foregate.schemas.tool_spec import Effect, ResourceKind, ToolSpec, hash_definition
from foregate.schemas.value import Value, format_key, read_value

_APPROVAL = "approval/approval_required"
_FILE = ResourceKind.FILE.value
_WILD = "*?["


class WrittenPermission(Struct, frozen=True):
    """What a person wrote of a permission, as texts.

    `command` are its words, with `further` the leading ones. `folder` is where it runs, `beneath` folders in which any
    file is meant, `targets` things as `kind:id`. Of `values`, `at_most` and `any` each is about one argument, as
    `path=text` or its bare path.
    """

    command: str = ""
    further: bool = False
    folder: str = ""
    access: Sequence[str] = ()
    beneath: Sequence[str] = ()
    targets: Sequence[str] = ()
    values: Sequence[str] = ()
    at_most: Sequence[str] = ()
    any: Sequence[str] = ()
    rules: Sequence[str] = ()
    tier: str = ""
    until: str = ""


def write_permission(
    spec: ToolSpec, written: WrittenPermission, policy: Policy, is_file: Callable[[str], bool] = lambda path: False
) -> Permission:
    """Return the permission a person wrote for a tool; raise UsageError for one that could not be kept to.

    `is_file` tells whether a path of the workspace is a file.
    """
    effect = effect_of_tool(spec, find_tool_entry(spec, policy), policy)
    if effect is Effect.UNKNOWN or not effect.changes:
        what = "nobody said what it does; declare it first" if effect is Effect.UNKNOWN else "it only reads"
        raise UsageError(f"`{spec.name[:60]}` cannot be permitted: {what}")
    bare = Permission(
        "",
        spec.name,
        effect.value,
        (_APPROVAL, *(check_rule(rule, policy) for rule in written.rules)),
        hash_definition(spec),
        targets=tuple(sorted({check_target(one) for one in written.targets})),
        patterns=tuple(sorted({f"{check_path(one)}/**" for one in written.beneath})),
        values=tuple(read_values(written)),
        tier=check_tier(written.tier),
        until=check_until(written.until),
        section=hash_section(spec, policy),
    )
    is_run = any(target.kind is ResourceKind.PROCESS for target in spec.targets)
    if is_run != bool(written.command):
        raise UsageError("say which command with --command" if is_run else f"`{spec.name[:60]}` runs no command")
    if is_run:
        return name_permission(add_command(bare, spec, written, policy, is_file))
    if written.further or written.folder or written.access or written.tier:
        raise UsageError("--further, --in, --access and --tier are about commands")
    if bare.patterns and effect not in WRITES:
        raise UsageError("--beneath is about tools that create or edit files; name what else changes with --target")
    if not (bare.targets or bare.patterns or bare.values):
        raise UsageError("this would permit whatever the tool does; bind it with --target, --beneath, --value or so")
    return name_permission(replace(bare, effect=Effect.EDIT.value) if bare.patterns else bare)


def add_command(
    bare: Permission, spec: ToolSpec, written: WrittenPermission, policy: Policy, is_file: Callable[[str], bool]
) -> Permission:
    """Return a permission for a command; raise UsageError for words that could go on to run anything."""
    try:
        words = tuple(shlex.split(written.command))
        requested = tuple(sorted({parse_access(one) for one in written.access}))
    except (ValueError, AccessError) as error:
        raise UsageError(f"`{written.command[:60]}` cannot be read: {error}") from None
    process = next(target.parameter for target in spec.targets if target.kind is ResourceKind.PROCESS)
    takes_line = _get_type(spec, process) == "string"
    command = Command(shell=written.command, access=requested) if takes_line else Command(words, access=requested)
    reading = read_command_line(command, policy)
    folder = check_path(written.folder) if written.folder not in ("", ".") else ""
    scripts = (str(PurePosixPath(folder, path)) for paths in list_scripts(reading, policy) for path in paths)
    if script := next(filter(is_file, scripts), ""):
        raise UsageError(f"it runs `{script[:60]}`, which a sheet looks at when it is shown; permit it there with `p`")
    bare = replace(bare, folder=folder, access=list_access(command, policy))
    if not written.further:
        return replace(bare, argv=command.argv, shell=command.shell)
    if why := explain_open_words(words, policy):
        raise UsageError(why)
    if split_plain(command, reading) != [*words]:
        raise UsageError(f"`{written.command[:60]}` is no single command; further words can only follow one")
    return replace(bare, leading=words)


def narrow_permission(given: Permission, written: WrittenPermission) -> Permission:
    """Return a permission that covers less; raise UsageError for what is wider than it was, or as wide."""
    kept = given
    if written.command or written.further:
        kept = narrow_command(kept, written)
    if written.targets or written.beneath:
        kept = narrow_targets(kept, written)
    if written.access:
        named = {str(one): one for one in given.access}
        if unknown := [one for one in written.access if one not in named]:
            raise UsageError(f"it does not reach `{unknown[0][:60]}`; it reaches {', '.join(named) or 'nothing'}")
        kept = replace(kept, access=tuple(named[one] for one in sorted({*written.access})))
    if given_values := list(read_values(written)):
        kept = narrow_values(kept, given_values)
    if written.tier:
        tier = check_tier(written.tier)
        if TIERS.index(tier) < TIERS.index(given.tier):
            raise UsageError(f"`{tier}` holds less than `{given.tier}`")
        kept = replace(kept, tier=tier)
    if written.until:
        until = check_until(written.until)
        if given.until and until > given.until:
            raise UsageError(f"it ends {given.until[:16]} already")
        kept = replace(kept, until=until)
    if written.folder or written.rules:
        raise UsageError("folder and rules stay as they were; revoke it, and add another")
    kept = name_permission(kept)
    if kept.id == given.id:
        raise UsageError(f"that is what `{given.id}` says already; nothing is narrower")
    return kept


def narrow_command(given: Permission, written: WrittenPermission) -> Permission:
    """Return a permission for a command with more of its words fixed."""
    try:
        words = tuple(shlex.split(written.command))
    except ValueError as error:
        raise UsageError(f"`{written.command[:60]}` cannot be read: {error}") from None
    size = len(given.leading)
    if not size or words[:size] != given.leading or not all(map(is_plain, words[size:])):
        raise UsageError("its words can only go on behind those it has, with plain ones, where further ones are open")
    return replace(given, leading=words, closed=not written.further)


def narrow_targets(given: Permission, written: WrittenPermission) -> Permission:
    """Return a permission for fewer of the things that it covers already."""
    targets = {check_target(one) for one in written.targets}
    patterns = {f"{check_path(one)}/**" for one in written.beneath}
    ids = [one.partition(":")[2] for one in targets - {*given.targets}]
    inside = [*ids, *(one.removesuffix("/**") for one in patterns)]
    is_file = all(one.startswith(f"{_FILE}:") for one in targets - {*given.targets})
    if not is_file or not all(any(matches(pattern, one) for pattern in given.patterns) for one in inside):
        raise UsageError("a thing it does not cover can only be permitted at a sheet, or with `add`")
    return replace(given, targets=tuple(sorted(targets)), patterns=tuple(sorted(patterns)))


def narrow_values(given: Permission, values: Iterable[PermittedValue]) -> Permission:
    """Return a permission with bounds of its values made tighter."""
    kept = {one.path: one for one in given.values}
    for value in values:
        old = kept.get(value.path)
        is_less = old is not None and old.at_most and 0 <= read_number(value.text) <= read_number(old.text)
        if old is None or value.any or not (old.any or is_less):
            raise UsageError(f"`{value.path[:60]}` is not made narrower by that")
        kept[value.path] = value
    return replace(given, values=tuple(kept.values()))


def read_values(written: WrittenPermission) -> Iterable[PermittedValue]:
    """Yield the values that were written; raise UsageError for one that says nothing."""
    for path in written.any:
        yield PermittedValue(path, "", "", any=True)
    for at_most, texts in ((False, written.values), (True, written.at_most)):
        for text in texts:
            path, equals, said = text.partition("=")
            value = read_value(said) or Value("words", said.casefold())
            if not path or not equals or not said or (at_most and read_number(said) < 0):
                wanted = "amount=50" if at_most else "to=ben@example.org"
                raise UsageError(f"`{text[:60]}` says no value; write `{wanted}`")
            yield PermittedValue(path, format_key(value), said, at_most)


def check_target(text: str) -> str:
    """Return a thing as a permission names it; raise UsageError for none, and for a path out of the workspace."""
    kind, _, name = text.partition(":")
    if kind not in {one.value for one in ResourceKind} or not name:
        raise UsageError(f"`{text[:60]}` names nothing; write its kind and name, such as `file:docs/a.md`")
    return f"{kind}:{check_path(name)}" if kind in (_FILE, ResourceKind.DIRECTORY.value) else text


def check_path(text: str) -> str:
    """Return a path of the workspace as it is compared; raise UsageError for any other, and for a pattern."""
    path = PurePosixPath(text)
    if path.is_absolute() or not path.parts or ".." in path.parts or any(char in text for char in _WILD):
        raise UsageError(f"`{text[:60]}` is no path within the workspace; write one such as `docs/api`")
    return str(path)


def check_rule(name: str, policy: Policy) -> str:
    """Return a rule that asks as a permission names it; raise UsageError for one there is not."""
    asking = [rule.id for rule in policy.rules.list if rule.then == "ask"]
    if name not in asking:
        raise UsageError(f"no rule `{name[:60]}` asks; there are: {', '.join(asking) or 'none'}")
    return name_rule(name, policy)


def check_tier(text: str) -> str:
    if text not in TIERS:
        raise UsageError(f"`{text[:60]}` holds nothing; say `limited` or `full`")
    return text


def check_until(text: str) -> str:
    """Return a moment as it is compared, in UTC; raise UsageError for what is none. A day ends with its last second."""
    if not text:
        return ""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"`{text[:60]}` is no date; write one such as `2026-12-31`") from None
    whole = f"{moment:%Y-%m-%d}T23:59:59" if len(text) <= len("2026-12-31") else f"{moment:%Y-%m-%dT%H:%M:%S}"
    return f"{whole}.000000Z"


def _get_type(spec: ToolSpec, parameter: str) -> object:
    properties = spec.parameters.get("properties", {})
    found = properties.get(parameter, {}) if isinstance(properties, dict) else {}
    return found.get("type") if isinstance(found, dict) else None

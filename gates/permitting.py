"""What a sheet offers to permit from now on: the call as it is shown, in words, and nothing wider."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from msgspec.structs import replace

from foregate.gates.questions import Ask
from foregate.policy.policy import Policy
from foregate.policy.risk.permitted import list_targets
from foregate.schemas import strict_json
from foregate.schemas.permission import Permission, PermittedValue
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import Effect, ResourceKind, hash_definition

_FILES = (ResourceKind.FILE, ResourceKind.DIRECTORY)
_EDITS = (Effect.CREATE, Effect.EDIT)
_APPROVAL = "approval/approval_required"
_SHOWN, _ID = 80, 8


def offer_permission(ask: Ask, policy: Policy) -> Permission | None:
    """Return what a person may permit from now on where a call asks, None where only a yes for this once does.

    That is what is outside of the mandate, what somebody has to name, what a sandbox has changed, and a call of which
    nobody knows what it does.
    """
    facts = ask.facts
    if ask.is_outside or facts.unspoken or facts.survey.problem or facts.survey.changes or facts.spec is None:
        return None
    if facts.effect is Effect.UNKNOWN or any(value.role == "carried" for value in facts.survey.values or ()):
        return None
    bare = Permission(
        "",
        facts.call.name,
        facts.effect.value,
        tuple(dict.fromkeys([*list_reasons(ask, policy), _APPROVAL])),
        hash_definition(facts.spec),
        digest="" if is_told_by_its_parts(facts) else facts.call.digest,
        targets=tuple(sorted(list_targets(facts))),
        values=tuple(
            PermittedValue(value.path, value.key, value.text, value.role == "amount")
            for value in facts.survey.values or ()
        ),
    )
    if (command := facts.survey.command) is not None:
        words = {"argv": command.argv, "shell": command.shell, "folder": command.folder, "scripts": command.scripts}
        bare = replace(bare, **words, access=command.access, tier=facts.survey.work)
    named = strict_json.digest(strict_json.dump(bare))
    return replace(bare, id=f"p{named[:_ID]}", words=describe_permission(bare))


def is_told_by_its_parts(facts: CallFacts) -> bool:
    """Whether command, targets and values tell a call from every other that does something else.

    A file that is written may get another content each time: that is what it is for.
    """
    if facts.survey.command is not None or facts.survey.values is not None:
        return True
    files = all(one.kind in _FILES for one in facts.targets)
    return bool(facts.targets) and files and facts.effect in _EDITS


def list_reasons(ask: Ask, policy: Policy) -> Iterator[str]:
    """Yield what asks as a permission holds it: a rule together with a hash of what it says."""
    rules = {rule.id: rule for rule in policy.rules.list}
    for code in ask.codes:
        rule = rules.get(code) if ask.gate == "rules" else None
        said = f"/{strict_json.digest(rule.model_dump(mode='json'))[:16]}" if rule is not None else ""
        yield f"{ask.gate}/{code}{said}"


def is_permitted(ask: Ask, policy: Policy) -> bool:
    """Whether the permission that covers a call was given for all that asks about it now."""
    given = ask.facts.permission
    return given is not None and not ask.is_outside and {*list_reasons(ask, policy)} <= {*given.reasons}


def describe_permission(permission: Permission) -> str:
    """Return what a permission covers, as one clause: "`git push origin main`, reaching host:example.org"."""
    command = permission.shell or shlex.join(permission.argv)
    what = f"`{command}`" if command else f"`{permission.tool}`"
    parts = [what + (f" in `{permission.folder}`" if permission.folder else "")]
    named = [value for value in permission.values if not value.at_most]
    parts += [f"{value.path} `{value.text[:_SHOWN]}`" for value in named]
    parts += [f"{value.path} at most {value.text[:_SHOWN]}" for value in permission.values if value.at_most]
    if not named and not command:
        parts += [f"`{target.partition(':')[2][:_SHOWN]}`" for target in permission.targets]
        parts += ["exactly this call" if permission.digest else "with any content"]
    if permission.access:
        parts.append(f"reaching {', '.join(map(str, permission.access))}")
    if permission.scripts:
        parts.append("while the scripts it runs stay as they are")
    return ", ".join(parts)


def cite_permission(permission: Permission) -> str:
    """Return how a decision names a permission: its name, who gave it when, and what it covers."""
    return f"permission {permission.id} of {permission.by or 'nobody'}, {permission.at[:10]}: {permission.words}"[:400]

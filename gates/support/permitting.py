"""What a sheet offers to permit from now on, in words: the call as shown, and where that is safe one wider form."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from foregate.gates.support.questions import Ask
from foregate.policy.policy import Policy
from foregate.policy.risk.permitted import (
    PLAIN,
    SHOWN,
    WRITES,
    find_leading_words,
    hash_section,
    is_plain_change,
    list_access,
    list_other_values,
    list_targets,
    name_target,
)
from foregate.schemas import strict_json
from foregate.schemas.judgement import Answer
from foregate.schemas.permission import Permission, PermittedValue
from foregate.schemas.strict_json import Json, get_list, get_object, get_text
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.tool_spec import Effect, ResourceKind, hash_definition

NARROW, WIDER = "project", "wider"
"""The choices that permit a call in the project, by what they permit."""
_FILES = (ResourceKind.FILE, ResourceKind.DIRECTORY)
_APPROVAL = "approval/approval_required"
_SPARED = ("approval", "plan", "critique")
"""Gates on whose behalf somebody is asked, and for whom a rule of the operator's says yes."""
_WILD = "*?["
_ID = 8


def offer_permissions(request: Mapping[str, Json], asks: Sequence[Ask], policy: Policy) -> dict[str, Json]:
    """Return an approval request that also says what each call may be permitted as from now on, by the choice."""
    offers = [list_offers(ask, policy) for ask in asks]
    offered = {one.id: strict_json.dump(one) for each in offers for one in each.values()}
    calls: list[Json] = [
        {**strict_json.as_object(call), "permits": {choice: one.id for choice, one in each.items()}} if each else call
        for call, each in zip(get_list(request, "calls"), offers, strict=True)
    ]
    more: dict[str, Json] = {"permissions": list(offered.values())} if offered else {}
    return {**request, "calls": calls, **more}


def list_offers(ask: Ask, policy: Policy) -> dict[str, Permission]:
    """Return what a person may permit from now on where a call asks, by the choice that does it."""
    narrow = offer_permission(ask, policy)
    wider = widen_permission(narrow, ask.facts, policy) if narrow is not None else None
    return {choice: one for choice, one in ((NARROW, narrow), (WIDER, wider)) if one is not None}


def list_permits(calls: Sequence[Mapping[str, Json]]) -> list[str]:
    """Return the choices by which all calls of a request can be permitted from now on."""
    permits = [get_object(call, "permits") for call in calls]
    return [choice for choice in (NARROW, WIDER) if permits and all(choice in one for one in permits)]


def read_permitted(answer: Answer, request: Mapping[str, Json]) -> list[Permission]:
    """Return what an answer permits from now on of what its request offered; raise InvalidJson for another request."""
    offered = {get_text(one, "id"): strict_json.load(Permission, one) for one in get_list(request, "permissions")}
    calls = get_list(request, "calls")
    # Asked by an earlier version.
    if not any("permits" in strict_json.as_object(call) for call in calls):
        return list(offered.values()) if answer.choice == NARROW else []
    named = (get_object(call, "permits").get(answer.find_choice(get_text(call, "call"))) for call in calls)
    return [offered[one] for one in dict.fromkeys(named) if isinstance(one, str) and one in offered]


def offer_permission(ask: Ask, policy: Policy) -> Permission | None:
    """Return what a person may permit from now on where a call asks, None where only a yes for this once does.

    That is what is outside of the mandate, what somebody has to name, what a sandbox took away, and a call
    whose effect is unknown.
    """
    facts = ask.facts
    if ask.is_outside or facts.unspoken or facts.survey.problem or facts.spec is None:
        return None
    if facts.effect is Effect.UNKNOWN or any(value.role == "carried" for value in facts.survey.values or ()):
        return None
    if facts.survey.changes and not is_plain_work(facts):
        return None
    bare = Permission(
        "",
        facts.call.name,
        facts.effect.value,
        tuple(dict.fromkeys([*list_reasons(ask, policy), _APPROVAL])),
        hash_definition(facts.spec),
        digest="" if is_told_by_its_parts(facts) else facts.call.digest,
        targets=tuple(sorted(map(name_target, list_targets(facts)))),
        values=(
            *(PermittedValue(one.path, one.key, one.text, one.role == "amount") for one in facts.survey.values or ()),
            *list_other_values(facts, policy),
        ),
        applied=bool(facts.survey.changes),
        section=hash_section(facts.spec, policy),
    )
    if (command := facts.survey.command) is not None:
        words = {"argv": command.argv, "shell": command.shell, "folder": command.folder, "scripts": command.scripts}
        bare = replace(bare, **words, access=list_access(command, policy), tier=facts.survey.work)
    return name_permission(bare)


def widen_permission(narrow: Permission, facts: CallFacts, policy: Policy) -> Permission | None:
    """Return one wider form of what is offered, None where none is safe.

    A command leaves its further words open, where the policy lists it; the edit of a file goes for its folder.
    """
    command = facts.survey.command
    if narrow.digest or narrow.applied:
        return None
    if command is not None:
        leading = find_leading_words(command, policy)
        return name_permission(replace(narrow, argv=(), shell="", leading=leading)) if leading else None
    if narrow.values or len(facts.targets) != 1:
        return None
    (file,) = facts.targets
    folder, _, name = file.id.rpartition("/")
    if not folder or not name or file.kind is not ResourceKind.FILE or file.protected or file.access not in WRITES:
        return None
    # Such a name would be read as a pattern, and cover other folders.
    if any(char in folder for char in _WILD):
        return None
    return name_permission(replace(narrow, effect=Effect.EDIT.value, targets=(), patterns=(f"{folder}/**",)))


def name_permission(bare: Permission) -> Permission:
    """Return a permission with its id and its words, which both tell what it covers."""
    named = strict_json.digest(strict_json.dump(replace(bare, id="", words="", by="", at="", session="", seq=0)))
    return replace(bare, id=f"p{named[:_ID]}", words=describe_permission(bare))


def is_plain_work(facts: CallFacts) -> bool:
    """Whether a command in a sandbox has only created and edited things, none of them protected, and all can be undone.

    What it writes into a file that some program runs by itself is to be looked at each time.
    """
    return not facts.survey.secrets and all(map(is_plain_change, facts.survey.resources))


def is_told_by_its_parts(facts: CallFacts) -> bool:
    """Whether command, targets and values tell a call from every other that does something else.

    A file that is written may get another content each time: that is what it is for.
    """
    if facts.survey.command is not None or facts.survey.values is not None:
        return True
    files = all(one.kind in _FILES for one in facts.targets)
    return bool(facts.targets) and files and facts.effect in WRITES


def list_reasons(ask: Ask, policy: Policy) -> Iterator[str]:
    """Yield what asks as a permission holds it: a rule together with a hash of what it says."""
    for code in ask.codes:
        yield name_rule(code, policy) if ask.gate == "rules" else f"{ask.gate}/{code}"


def name_rule(name: str, policy: Policy) -> str:
    """Return the reason for which a rule asks, with a hash of what it says; one of no rule is its code alone."""
    rule = next((rule for rule in policy.rules.list if rule.id == name), None)
    said = rule.model_dump(mode="json", exclude={"stands_for"}) if rule is not None else None
    return f"rules/{name}" + (f"/{strict_json.digest(said)[:16]}" if said is not None else "")


def is_permitted(ask: Ask, policy: Policy) -> bool:
    """Whether the permission that covers a call was given for all that asks about it now.

    A rule that stands for a yes does so wherever no other rule asks.
    """
    given = ask.facts.permission
    if given is None:
        return bool(ask.facts.standing_rule) and not ask.is_outside and ask.gate in _SPARED
    return not ask.is_outside and {*list_reasons(ask, policy)} <= {*given.reasons}


def describe_permission(permission: Permission) -> str:
    """Return what a permission covers, as one clause: "`git push origin main`, reaching network:example.org"."""
    command = permission.shell or shlex.join(permission.argv or permission.leading)
    what = f"`{command}`" if command else f"`{permission.tool}`"
    what = f"keeping what {what} changes" if permission.applied else what
    parts = [what + (f" in `{permission.folder}`" if permission.folder else "")]
    if permission.leading and not permission.closed:
        parts.append(f"with any further {PLAIN}")
    parts += map(describe_value, sorted(permission.values, key=lambda value: value.any or value.at_most))
    targets = [f"`{target.partition(':')[2][:SHOWN]}`" for target in permission.targets]
    if permission.applied:
        parts.append(f"if that is no more than {', '.join(targets)}")
    elif not (permission.values or command):
        parts += [*targets, *(f"any file in `{one.removesuffix('/**')}` or beneath" for one in permission.patterns)]
        parts.append("exactly this call" if permission.digest else "with any content")
    if permission.access and not permission.applied:
        parts.append(f"reaching {', '.join(str(one) if one.name else 'any host' for one in permission.access)}")
    if permission.scripts:
        parts.append("while the scripts it runs stay as they are")
    if permission.until:
        parts.append(f"until {permission.until[:16]}")
    return ", ".join(parts)


def describe_value(value: PermittedValue) -> str:
    """Return what a value may be, in words."""
    if value.any:
        return f"any {value.path} that you or the workspace named"
    return f"{value.path} at most {value.text[:SHOWN]}" if value.at_most else f"{value.path} `{value.text[:SHOWN]}`"

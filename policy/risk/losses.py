"""What could be lost by a call, and what a sandbox took away or a commit takes along that nobody spoke of. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from foregate.policy.policy import Policy
from foregate.policy.risk.reading import can_hold_work, read_command_line
from foregate.policy.risk.request import (
    RequestFacts,
    collect_names,
    find_partly_named,
    find_target_to_keep,
    is_named,
    is_named_by_user,
    split_words,
)
from foregate.policy.risk.self_running import RUNS_BY_ITSELF
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.sandbox import Access
from foregate.schemas.tool_call import CallFacts, Reason, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import Turn
from foregate.schemas.value import ArgumentValue, format_key, read_value

_TAKEN = ("moved", "replaced", "all")
# "what is committed in `.env`", "`.env`".
_HOLDER = compile_late(r"(?:what is [a-z ]+ in )?`([^`]+)`")
"""How a sentence of a survey begins that says of a file that it holds a secret; any other names no file."""


def explain_losses(facts: CallFacts, turn: Turn, request: RequestFacts, policy: Policy) -> Iterator[tuple[Reason, str]]:
    """Yield why a person is asked about what a sandbox took away: that they want it kept, or never spoke of it.

    Of the command itself it was judged before it ran whether enough is known. Behind each stands the slot it leaves
    open.
    """
    weights = policy.scores.uncertainty
    kept = next(filter(None, (find_target_to_keep(r, request) for r in list_taken(facts))), "")
    if kept:
        yield Reason("target_kept", weights.target_kept, f"the request says to keep `{kept[:120]}`"), "scope"
    if lost := find_unspoken_loss(facts, turn, request):
        why = "the request sets no bounds to it"
        yield Reason("destructive_without_scope", weights.destructive_without_scope, why), "scope"
        why = f"`{lost[:120]}` would be gone, nobody spoke of that, and git cannot bring it back"
        yield Reason("deletion_unasked", weights.deletion_unasked, why), "target"


def list_taken(facts: CallFacts) -> list[SurveyedResource]:
    """Return what a sandbox took away and git cannot bring back."""
    return [resource for resource in facts.resources if resource.loses in _TAKEN]


def find_unspoken_loss(facts: CallFacts, turn: Turn, request: RequestFacts) -> str:
    """Return the first thing a sandbox took away that neither the request nor a plan is about, "" for none.

    A plain yes is about what it answers: what the model proposed by name, or what was asked about in this task.
    """
    if turn.has_scope or (request.confirms and turn.proposal is None):
        return ""
    if turn.proposal is not None:
        proposed = collect_names(split_words(turn.proposal.text))
        request = replace(request, things=request.things | proposed)
    lost, origins = list_taken(facts), {atom.text: atom.origin for atom in facts.survey.atoms}
    over = (r.id for r in lost if r.loses == "replaced")
    if replaced := next((name for name in over if not (request.destructive and is_named(name, request.things))), ""):
        return replaced
    reverts = any(r.kind is ResourceKind.REPOSITORY for r in facts.resources)
    gone = (r for r in lost if r.loses != "moved" and not r.changed_before)
    unspoken = (r.id for r in gone if r.access is Effect.DELETE or reverts)
    named = {r.id for r in lost if is_named_by_user(r, request, origins)}
    named -= find_partly_named([r.id for r in lost], request.things)
    return next((name for name in unspoken if name not in named), "")


def list_unspoken(facts: CallFacts, turn: Turn, request: RequestFacts, policy: Policy) -> tuple[ArgumentValue, ...]:
    """Return what a person has to name before a call that asks may keep it gone, or take it along.

    Of files it is the first that would be lost, of secrets the first file that holds one.
    """
    if policy.mandate.mode == "off":
        return ()
    found: list[ArgumentValue] = []
    if "losses" in policy.mandate.naming and facts.survey.changes:
        lost = find_unspoken_loss(facts, turn, request)
        found += [build_value("lost", lost)] if lost else []
    if "secrets" in policy.mandate.naming:
        holders = [name[1] for sentence in facts.survey.secrets if (name := _HOLDER.match(sentence))]
        found += [build_value("secret", name) for name in holders if not is_named(name, request.things)][:1]
    if "losses" in policy.mandate.naming and not found and is_wanted_anyway(facts, turn):
        found.append(build_value("lost", facts.target))
    return tuple(found)


def is_wanted_anyway(facts: CallFacts, turn: Turn) -> bool:
    """Whether a person wants exactly this deletion although nobody said what may go: that names nothing yet."""
    wanted = (grant.digest for grant in turn.grants if grant.gate == "uncertainty")
    return turn.edition >= 2 and facts.effect is Effect.DELETE and facts.call.digest in wanted


def build_value(role: Literal["lost", "secret"], name: str) -> ArgumentValue:
    """Return a thing nobody spoke of as a value that a person names."""
    form = read_value(name)
    return ArgumentValue(role, role, name, format_key(form) if form is not None else "", "unsaid")


_NAMED = 3
"""Things that are named one by one."""
_IN_WORKSPACE = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.REPOSITORY)
_NOT_HELD = "whatever your account can read, change, delete or send: no sandbox holds this program"


def describe_stakes(facts: CallFacts, policy: Policy) -> list[str]:
    """Return what could be lost by a call, each as an answer to `what is at stake?`; it may be nothing."""
    found = list(dict.fromkeys(_find_stakes(facts, policy)))
    return found or ["nothing: it can be undone" if facts.changes else "nothing: it only reads"]


def _find_stakes(facts: CallFacts, policy: Policy) -> Iterator[str]:
    for resource in facts.resources:
        if resource.protected == "secret":
            yield f"what `{resource.id[:80]}` holds: the model is shown all of it but what is masked"
        if resource.protected == RUNS_BY_ITSELF:
            yield f"whatever your account can do, once a program runs `{resource.id[:80]}`"
    if facts.survey.secrets:
        yield f"a secret would leave: {facts.survey.secrets[0][:120]}"
    if not facts.changes:
        return
    command = facts.survey.command
    held = facts.contained or can_hold_work(policy, facts.survey.work)
    if command is not None and held and not facts.survey.changes:
        yield from map(describe_access, read_command_line(command, policy).access)
    changed = [one for one in facts.changed_resources if one.kind in _IN_WORKSPACE]
    if lost := [one for one in changed if not one.restorable]:
        yield f"{_name_things(lost)}, and no copy is kept"
    if taken := [one for one in changed if one.restorable and one.loses in ("replaced", "all")]:
        yield f"{_name_things(taken)}, which git cannot bring back and an undo here can"
    if command is not None:
        yield from [] if held else [_NOT_HELD]
    elif facts.effect is Effect.SEND:
        yield f"what is sent to `{facts.target[:80]}` cannot be taken back"
    elif facts.effect is Effect.UNKNOWN:
        yield "whatever the tool can do: nobody here can say what that is"
    elif facts.external:
        yield "what it does outside the workspace cannot be taken back"
    elif facts.irreversible and not lost:
        yield "what is there now: the tool keeps no copy of it"


def describe_access(access: Access) -> str:
    """Return what an access to the world outside puts at stake."""
    match access.kind:
        case "network" if access.name:
            return f"anything in the workspace could be sent to any account at {access.name}"
        case "network":
            return "anything in the workspace could be sent to anybody"
        case "port":
            return f"whatever the program that listens on port {access.name} does when it is told to"
        case "socket":
            return f"whatever the program that listens at `{access.name}` does when it is told to"
        case "device":
            return f"whatever `{access.name}` does when it is told to"
        case "folder":
            return f"anything in `{access.name}` could be read, changed or deleted"


def _name_things(resources: Sequence[SurveyedResource]) -> str:
    names = [f"`{one.id[:80]}`" for one in resources[:_NAMED]]
    more = len(resources) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")

"""What a sandbox took away, or a commit would take along, and no word of the person's is about. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec.structs import replace

from foregate.policy.policy import Policy
from foregate.policy.risk.request import (
    RequestFacts,
    collect_names,
    find_partly_named,
    find_target_to_keep,
    is_named,
    is_named_by_user,
    split_words,
)
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_call import CallFacts, Reason, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import Turn
from foregate.schemas.value import ArgumentValue, format_key, read_value

_TAKEN = ("moved", "replaced", "all")
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

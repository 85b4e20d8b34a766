"""What a request asked for and its task left undone, because nobody could say yes or somebody said no."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from foregate.agent.session.session import Session
from foregate.evidence.state.task import TaskState
from foregate.policy.risk.declared import find_tool_entry
from foregate.policy.risk.proposal import list_asking
from foregate.policy.risk.said import asks_for
from foregate.schemas.tool_spec import Effect

_NOBODY = ("approval_required", "approval_expired")
"""Codes by which a call waits for somebody who is not there, whatever else the task has done."""
_REFUSED = ("approval_denied", "approval_expired", "outside_mandate")
"""Codes by which a person who could be asked let a call not go."""
_WAYS = {
    "approval_denied": "another request, or a yes",
    "approval_expired": "a person who answers in time",
    "approval_required": "a person's yes (`foregate chat`), or a request that says to whom, what and how much: it "
    "needs none, unless it cannot be undone and has high impact",
    "denied_by_rule": "other rules in the policy (rules.list)",
    "outside_mandate": "the value in the request's own words, a rule of the policy that allows it as the target, or "
    "a person who types it",
}


class Unmet(NamedTuple):
    """What was not done and why, as a sentence, and what would let it be done."""

    blocker: str
    need: str


def find_unmet(session: Session, task: TaskState) -> Unmet | None:
    """Return what the request asked for and was not done, None where there is nothing.

    With nobody there each call that waited for a yes counts, and any other whose effect came of no other call. What a
    person refused counts where nothing else was done.
    """
    if session.depth or session.policy.mandate.mode == "off" or (session.person is not None and task.done):
        return None
    left = {f"{tool} {target}".strip(): code for tool, target, code in list_left(session, task)}
    if not left:
        return None
    names = ", ".join(f"`{name[:120]}`" for name in list(left)[:5])
    why = "nobody was there to say yes" if session.person is None else "the person did not let it go"
    ways = dict.fromkeys(_WAYS.get(code, "what the ruling asked for") for code in left.values())
    return Unmet(f"asked for and not done, for {why}: {names}", "; ".join(ways))


def list_left(session: Session, task: TaskState) -> Iterator[tuple[str, str, str]]:
    """Yield tool, target and code of each change that was asked for and is not done."""
    proposal = session.turns.find_proposal(task)
    messages = tuple(task.messages) if proposal is None else list_asking(proposal, task.messages, session.policy)
    did = {get_effect(session, entry.partition(" ")[0]) for entry in task.done}
    for (tool, target), code in task.left.items():
        if (tool, target) not in task.trouble:
            continue
        effect = get_effect(session, tool)
        counts = code in _REFUSED if session.person is not None else code in _NOBODY or effect not in did
        if counts and asks_for(effect, tool, messages, session.policy):
            yield tool, target, code


def get_effect(session: Session, tool: str) -> Effect:
    """Return the effect a tool is declared with, by the operator or the person before its own."""
    spec = session.catalogue.get(tool)
    entry = find_tool_entry(spec, session.policy)
    if entry is not None and entry.effect is not None:
        return entry.effect
    return spec.effect if spec is not None else Effect.UNKNOWN

"""What a request asked for and its task left undone, because nobody could say yes or somebody said no."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from foregate.agent.session.session import Session
from foregate.evidence.state.task import BLOCKED, TaskState
from foregate.policy.policy import Policy
from foregate.policy.risk.declared import find_tool_entry
from foregate.policy.risk.own_words import read_own_words
from foregate.policy.risk.proposal import list_asking
from foregate.policy.risk.request import collect_names, read_own_request
from foregate.policy.risk.said import asks_for
from foregate.schemas.tool_call import Origin
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Said

_NOBODY = ("approval_required", "approval_expired")
"""Codes by which a call waits for somebody who is not there, whatever else the task has done."""
_DENIED = ("approval_denied", "approval_expired", "critique_rejected", "denied_by_rule", "outside_mandate", BLOCKED)
"""Codes by which a call was not let go though a person was there; of others a person has heard already."""
_WAYS = {
    "approval_denied": "another request, or a yes",
    "approval_expired": "a person who answers in time",
    BLOCKED: "what the child task needed",
    "approval_required": "a person's yes (`foregate chat`), or a request that says to whom, what and how much, and "
    "nothing else: it needs none, unless it cannot be undone and has high impact",
    "denied_by_rule": "other rules in the policy (rules.list)",
    "outside_mandate": "the value in the request's own words, a rule of the policy that allows it as the target, or "
    "a person who types it",
}

UNKNOWN_WAY = "what the ruling asked for"
"""What would let a call go of whose code nothing more is known."""

_MOST, _LONGEST = 5, 120
"""Calls that are named, and the characters of each name."""


class Unmet(NamedTuple):
    """What was not done and why, as a sentence, and what would let it be done."""

    blocker: str
    need: str


def find_unmet(session: Session, task: TaskState) -> Unmet | None:
    """Return what the request asked for and was not done, None where there is nothing.

    With nobody there each call that waited for a yes counts, whatever else was done.
    """
    left = {f"{tool} {target}".strip(): (tool, target, code) for tool, target, code in list_left(session, task)}
    if not left:
        return None
    named: dict[str, list[str]] = {}
    for name, (tool, target, code) in list(left.items())[:_MOST]:
        why = explain_code(code, is_attended=session.person is not None)
        if code == BLOCKED:
            named.setdefault(f"a child task ended {task.why[tool, target]}", [])
        else:
            named.setdefault(f"asked for and not done, for {why}", []).append(f"`{name[:_LONGEST]}`")
    blockers = [f"{why}: {', '.join(names)}" if names else why for why, names in named.items()]
    ways = dict.fromkeys(_WAYS.get(code, UNKNOWN_WAY) for _, _, code in left.values())
    return Unmet("; ".join(blockers), "; ".join(ways))


def explain_code(code: str, *, is_attended: bool) -> str:
    """Return why a call with this code was not done, in a few words."""
    match code:
        case "denied_by_rule":
            return "a rule of the policy denies it"
        case "critique_rejected":
            return "the critic rejected it"
        case "approval_required" | "approval_expired" | "outside_mandate" if not is_attended:
            return "nobody was there to say yes"
        case "approval_required" | "approval_expired" | "approval_denied" | "outside_mandate":
            return "the person did not let it go"
        case _:
            return f"it was held ({code})"


def list_left(session: Session, task: TaskState) -> Iterator[tuple[str, str, str]]:
    """Yield tool, target and code of each change that was asked for and is not done.

    What was done since in its place settles one. So does what was done before, where only text from outside named it:
    the person asked for the other one.
    """
    proposal = session.turns.find_proposal(task)
    messages = tuple(task.messages) if proposal is None else list_asking(proposal, task.messages, session.policy)
    did = [get_effect(session, entry.partition(" ")[0]) for entry in task.done]
    for (tool, target), left in task.left.items():
        if (tool, target) not in task.trouble:
            continue
        if left.code == BLOCKED:
            if len(did) == left.after:
                yield tool, target, left.code
            continue
        effect, waits = get_effect(session, tool), session.person is None and left.code in _NOBODY
        if session.person is not None and left.code not in _DENIED:
            continue
        foreign = session.state.atoms.find_atom(target).origin is Origin.EXTERNAL
        if effect in (did if foreign else did[left.after :]) and not waits:
            continue
        denied = left.code in (*_DENIED, *_NOBODY) and is_named_in(target, messages, session.policy)
        if denied or asks_for(effect, tool, messages, session.policy):
            yield tool, target, left.code


def is_named_in(target: str, messages: Sequence[Said], policy: Policy) -> bool:
    """Whether the person names a target, by its last part at least, and not as one to leave alone."""
    texts = tuple(said.text for said in messages if said.actor == "user")
    own = [read_own_words(text, policy) for text in texts]
    words = collect_names(word for one in own for at, word in enumerate(one.words) if at not in one.negated)
    name = target.casefold().removeprefix("./").rstrip("/")
    return not words.isdisjoint({name, name.rpartition("/")[2]} - read_own_request(texts, policy).kept)


def get_effect(session: Session, tool: str) -> Effect:
    """Return the effect a tool is declared with, by the operator or the person before its own."""
    spec = session.catalogue.get(tool)
    entry = find_tool_entry(spec, session.policy)
    if entry is not None and entry.effect is not None:
        return entry.effect
    return spec.effect if spec is not None else Effect.UNKNOWN

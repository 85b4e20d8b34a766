"""What a request asked for and its task left undone, because nobody could say yes or somebody said no; and with nobody
there, the line of the policy that would have let each call go."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from foregate.agent.session.session import Session
from foregate.evidence.ledger import find_strings
from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.evidence.state.task import BLOCKED, TaskState
from foregate.gates.prelude import build_prelude, judge
from foregate.policy.policy import Policy
from foregate.policy.risk.declared import find_tool_entry
from foregate.policy.risk.mandate import is_told_apart, list_outside_values
from foregate.policy.risk.own_words import read_own_words
from foregate.policy.risk.proposal import list_asking
from foregate.policy.risk.request import collect_names, read_own_request
from foregate.policy.risk.said import NAME_PARTS, asks_for
from foregate.policy.source.load import build_from_data, check_text
from foregate.schemas.judgement import Judgement, Standing
from foregate.schemas.tool_call import CallFacts, Origin, Survey
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Said, Turn
from foregate.schemas.value import read_value

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
    "outside_mandate": "the value in the request's own words, or a person who types it",
}

UNKNOWN_WAY = "what the ruling asked for"
"""What would let a call go of whose code nothing more is known."""

_MOST, _LONGEST = 5, 120
"""Calls that are named, and the characters of each name."""


_ASSIGNED = "id"
"""The last word of the name of a field that its system assigns; an address or an account may be anybody's."""
_WILD = "*?["
_MAX_LINE = 300
"""Characters of a line of the policy that is still shown."""


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


async def explain_unmet(session: Session, task: TaskState) -> Unmet | None:
    """Return what was not done; with nobody there also the line of the policy that would have let each call go, or that
    a person must be asked."""
    unmet = find_unmet(session, task)
    if unmet is None or session.person is not None:
        return unmet
    asked = (*_NOBODY, "outside_mandate")
    left = [(tool, target) for tool, target, code in list_left(session, task) if code in asked][:_MOST]
    try:
        turns = [one.turn for one in read_judged_turns(await session.log.read())]
    except LookupError:
        # What a session continues lies in the log of another.
        return unmet
    ways = []
    for tool, target in dict.fromkeys(left):
        line = find_line(tool, target, turns, session)
        said = f"add `{line}` to the policy" if line else "a person must be asked; no line of the policy is safe for it"
        # Not the target, which could read as a line to add.
        ways.append(f"for `{tool[:_LONGEST]}`: {said}")
    return Unmet(unmet.blocker, "; ".join([unmet.need, *ways]))


def find_line(tool: str, target: str, turns: Sequence[Turn], session: Session) -> str:
    """Return the line of YAML with which the last such call would have run, "" where none does that is safe.

    Safe is a rule for exactly this call where no value is from outside, or fields that a tool's own system assigns.
    """
    for turn in reversed(turns):
        facts = session.prelude.facts(turn)
        for call in turn.calls:
            if (call.name, facts[call.id].target) == (tool, target):
                key, value, surveys = propose_entry(facts[call.id], turn, turns, session)
                line = f"{key}: {json.dumps(value)}" if value else ""
                # The policy's own reader and the gates try it out.
                usable = 0 < len(line) <= _MAX_LINE and not check_text("line", "line", line)
                is_let = usable and lets_go(call.id, replace(turn, surveys=surveys), key, value, session)
                return line if is_let else ""
    return ""


def propose_entry(
    facts: CallFacts, turn: Turn, turns: Sequence[Turn], session: Session
) -> tuple[str, dict[str, Any], tuple[Survey, ...]]:
    """Return a key of the policy and what it may say so that a call runs, with what would then be found of its calls;
    it says nothing where that would free what others can write."""
    outside, survey, call = list_outside_values(facts, turn.depth), facts.survey, facts.call
    if not outside:
        named = list(survey.command.argv) if survey.command is not None else facts.target
        what = {"command": named} if survey.command is not None else {"resource": named}
        unsafe = not named or any(sign in facts.target for sign in _WILD)
        rule = {"id": f"let-{call.digest.rpartition(':')[2][:8]}", "then": "allow", "stands_for": "approval"}
        return "rules", {} if unsafe else {"list": [rule | {"tool": call.name} | what]}, turn.surveys
    entries: dict[str, list[str]] = {}
    for value in outside:
        tool, field = (*value.record[:2], "", "")[:2]
        words = [part.group().casefold() for part in NAME_PARTS.finditer(field)]
        known = session.policy.sources.get(tool)
        if not is_told_apart(value) or words[-1:] != [_ASSIGNED] or known is not None or takes_address(tool, turns):
            return "sources", {}, turn.surveys
        entries[tool] = [*dict.fromkeys((*entries.get(tool, ()), field))]
    found = tuple(replace(one, source="found") if one in outside else one for one in survey.values or ())
    surveys = tuple(replace(one, values=found) if one.call == call.id else one for one in turn.surveys)
    return "sources", {tool: {"own": fields} for tool, fields in entries.items()}, surveys


def takes_address(tool: str, turns: Sequence[Turn]) -> bool:
    """Whether a tool was asked for an address, so that whoever answers there writes what it returns, ids as well."""
    texts = (one for turn in turns for call in turn.calls if call.name == tool for one in find_strings(call.arguments))
    return any(value.kind in ("url", "host") for value in map(read_value, texts) if value is not None)


def lets_go(call: str, turn: Turn, key: str, value: Mapping[str, Any], session: Session) -> bool:
    """Whether a call would have run, with nobody there, had the policy said that as well."""
    data: dict[str, Any] = dict(session.policy.recorded)
    more = {**value, "list": [*data[key]["list"], *value["list"]]} if key == "rules" else value
    data[key] = {**data[key], **more}
    judgement = judge(turn, build_prelude(build_from_data(data), session.catalogue))
    return isinstance(judgement, Judgement) and judgement.find_verdict(call).standing is Standing.ALLOW


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

"""What the critic is shown: the person's own words, the calls and who said each value, the plan, and what was seen.

Whatever others wrote is cut, freed of what a reader would not see, and stands between two marks that nothing within it
can close.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from foregate.gates.support.questions import build_need, describe_call, describe_plan
from foregate.policy.policy import Policy
from foregate.policy.risk.mandate import is_asked_for
from foregate.policy.risk.pieces import cut_pasted
from foregate.schemas.judgement import Need
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.plan import PlanInForce
from foregate.schemas.strict_json import Json, get_list
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.turn import Turn
from foregate.schemas.value import ArgumentValue
from foregate.schemas.visible import make_visible

_OPEN, _CLOSE = "\u27e6", "\u27e7"
_MARKS = str.maketrans({_OPEN: "[", _CLOSE: "]"})
_LONG, _LINE, _SHORT, _MOST = 4000, 300, 200, 24
# "items[0].price": other paths may hold a model's words, and are marked as such.
_PLAIN = compile_late(r"[\w.\[\]-]{1,80}", re.ASCII)
_OWN = ("said", "mentioned", "unclear")
"""Sources whose words are a sentence of the person's."""


def build_critique_need(
    turn: Turn, calls: Sequence[CallFacts], plan: PlanInForce | None, policy: Policy, doubts: Mapping[str, str]
) -> Need:
    """Return the critic's Need for calls; `doubts` says by call id why it is asked, where that has a reason of its own.

    `plan` is one accepted just now; without it the plan in force is shown.
    """
    own, others = split_words(turn, policy)
    request: dict[str, Json] = {
        "now": turn.now,
        "user_words": own,
        "other_words": mark(others, _LONG) if others else "",
        "calls": [
            describe_call(facts)
            | {"arguments": _cut(facts.call.raw), "asked_for": is_asked_for(facts, turn, policy)}
            | {"values": [describe_value(value) for value in (facts.survey.values or ())[:_MOST]]}
            | {"doubt": mark(doubts.get(facts.call.id, ""), _LINE)}
            for facts in calls
        ],
        "plan": describe_promises(turn, plan or turn.plan),
        "evidence": [seen for facts in calls for seen in describe_evidence(facts)],
        "contradictions": [
            {"resource": found.resource.id, "event": found.later, "contradicts": found.earlier}
            for found in turn.contradictions
        ],
    }
    return build_need(turn, "critique", "critic", calls, request)


def split_words(turn: Turn, policy: Policy) -> tuple[str, str]:
    """Return what the person typed for this request, and what else stands in its messages: pasted text, and the words
    of a task that started this one."""
    own = [cut_pasted(said.text, policy.mandate).strip() for said in turn.user_messages if said.actor == "user"]
    others = [
        said.text
        for said in turn.user_messages
        if said.actor != "user" or len(said.text.split()) > len(cut_pasted(said.text, policy.mandate).split())
    ]
    return "\n\n".join(own)[-_LONG:], "\n\n".join(others)


def describe_value(value: ArgumentValue) -> dict[str, Json]:
    """Return a value of a call with who said it first, and where that is the person's own words their sentence."""
    path = value.path if _PLAIN.fullmatch(value.path) else mark(value.path, _SHORT)
    words = value.words[:_SHORT] if value.source in _OWN else mark(value.words, _SHORT)
    text = value.text if value.source == "said" else mark(value.text, _SHORT)
    return {"path": path, "role": value.role, "text": text, "origin": value.source, "first_said": words}


def describe_promises(turn: Turn, plan: PlanInForce | None) -> Json:
    """Return a plan with how its success would be seen and what it says could go wrong."""
    shown = describe_plan(plan)
    if plan is None or not isinstance(shown, dict):
        return shown
    told = ("text", "target", "expected")
    criteria: list[Json] = [
        {"check": one.check, **{name: mark(str(getattr(one, name) or ""), _LINE) for name in told}}
        for one in plan.criteria[:_MOST]
    ]
    newest = turn.find_answers("plan")[-1:]
    named = plan.risks or tuple(
        str(risk) for answer in newest for risk in get_list(answer.value or {}, "risky_actions")
    )
    risks = [mark(risk, _LINE) for risk in named[:_MOST]]
    return {**shown, "success_criteria": criteria, "risky_actions": risks}


def describe_evidence(facts: CallFacts) -> list[Json]:
    """Return of each resource of a call what was seen of it: how, when, how far it can be trusted, and whose words."""
    return [
        {
            "resource": make_visible(resource.id)[:_LONG],
            "exists": resource.exists,
            "seen": [
                {
                    "kind": seen.kind.value,
                    "trust": seen.trust.value,
                    "origin": seen.origin.value,
                    "event": seen.seq,
                    "at": seen.at,
                    "as_it_is_now": seen.hash == resource.hash if seen.hash and resource.hash else None,
                }
                for seen in resource.evidence
            ],
        }
        for resource in facts.resources
    ]


def mark(text: str, size: int) -> str:
    """Return somebody else's words between marks, cut, with nothing hidden in them and no mark of their own."""
    shown = make_visible(text.translate(_MARKS))
    return f"{_OPEN}{shown if len(shown) <= size else _cut(shown, size)}{_CLOSE}" if text else ""


def _cut(text: str, size: int = _LONG) -> str:
    """Return the two ends of a long text, and how much is left out between them."""
    if len(text) <= size:
        return text
    half = size // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters left out … {text[-half:]}"

"""Answers that a log does not hold, as an operator assumes them: what planner, critic and person would have said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from msgspec.structs import replace

from foregate.gates.blind_plan import KEY
from foregate.schemas.errors import UsageError
from foregate.schemas.judgement import Answer, Need, Who
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.turn import Turn

CHOICES: Mapping[str, tuple[str, ...]] = {
    "planner": ("accept", "unavailable"),
    "critic": ("accept", "reject", "unavailable"),
    "person": ("yes", "no"),
}
"""What may be assumed of whom: a plan that fits and passes every check, a verdict, an answer; or none to be had."""


@dataclass(frozen=True)
class Assumption:
    """What each of them is assumed to say, "" where nothing is assumed and the outcome stays open."""

    planner: str = ""
    critic: str = ""
    person: str = ""

    def answer(self, need: Need, turn: Turn, facts: Mapping[str, CallFacts]) -> Answer | None:
        """Return the assumed answer to a need, None where nothing is assumed of whom it asks."""
        choice = {"planner": self.planner, "critic": self.critic, "person": self.person}[need.who]
        if not choice or need.gate == "loop":
            return None
        bound_to = (need.digests, turn.survey_hash, turn.policy_hash)
        answer = Answer(need.gate, need.who, need.key, *bound_to, None, "assumed to be unavailable", turn.now)
        if choice == "unavailable":
            return answer
        return replace(answer, value=build_value(need, choice, [facts[call] for call in need.calls]), error="")


def build_value(need: Need, choice: str, calls: Sequence[CallFacts]) -> dict[str, Json]:
    """Return what is assumed to be answered about these calls."""
    if need.who == "person":
        return {"choice": choice, "text": "", "by": "assumed"}
    if need.who == "critic":
        issues = ["assumed to be rejected"] if choice == "reject" else []
        return {"verdict": "replan" if choice == "reject" else "accept", "issues": issues, "summary": "assumed"}
    return build_blind_plan(calls) if need.key.startswith(KEY) else build_plan(calls)


def build_blind_plan(calls: Sequence[CallFacts]) -> dict[str, Json]:
    """Return a plan made without a look that names calls as far as a plan can: what nobody said it does not open."""
    return {**build_plan(calls[:1]), "planned_steps": [build_blind_step(one) for one in calls], "flows": []}


def build_blind_step(facts: CallFacts) -> dict[str, Json]:
    values, other = facts.survey.values or (), {"read": None, "record": None, "field": None}
    return {
        "tool": facts.call.name,
        "effect": None,
        "uses": 1,
        "targets": [{"argument": value.path, "said": value.text, **other} for value in values],
        "bounds": [{"argument": value.path, "rule": "equals", "value": value.text} for value in values],
        "description": "do it",
    }


def build_plan(calls: Sequence[CallFacts]) -> dict[str, Json]:
    """Return a plan that passes every check for calls, and covers nothing else."""
    steps = [
        {"tool": one.call.name, "target": one.targets[0].id if one.targets else "", "description": "do it"}
        for one in calls
    ]
    more = [{**step, "effect": None, "uses": None} for step in steps]
    return {
        "goal": "do exactly this",
        "success_criteria": [{"text": "it is done", "check": None, "target": None, "expected": None}],
        "first_action": steps[0],
        "requires_verification": True,
        "risky_actions": ["this"],
        "version": 1,
        "planned_steps": more if len(more) > 1 else None,
    }


def read_assumption(text: str) -> Assumption:
    """Return what a text such as `planner=accept,person=yes` assumes; raise UsageError for any other."""
    said: dict[str, str] = {}
    for part in text.split(","):
        who, _, choice = (piece.strip() for piece in part.partition("="))
        if who not in get_args(Who) or who in said:
            raise UsageError(f"`{part[:60]}` assumes nothing; write {describe_choices()}")
        if choice not in CHOICES[who]:
            allowed = " or ".join(f"`{one}`" for one in CHOICES[who])
            raise UsageError(f"the {who} cannot be assumed to say `{choice[:40]}`; say {allowed}")
        said[who] = choice
    return Assumption(**said)


def describe_choices() -> str:
    """Return what may be assumed, as part of a sentence."""
    return ", ".join(f"`{who}={'|'.join(choices)}`" for who, choices in CHOICES.items())

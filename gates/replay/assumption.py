"""What a log does not hold, as an operator assumes it: what planner, critic, person and model would have said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import asdict

from foregate.gates.support.blind_planner import KEY
from foregate.policy.source.keys import POLICY
from foregate.policy.source.strict_yaml import Data, Path
from foregate.schemas.errors import UsageError
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.turn import Turn

CHOICES: Mapping[str, tuple[str, ...]] = {
    "planner": ("accept", "unavailable"),
    "critic": ("accept", "reject", "unavailable"),
    "person": ("yes", "no"),
    "model": ("same",),
}
"""What may be assumed of each: a plan that fits and passes every check, a verdict, an answer, or none to be had; and a
model that says the same, whatever it is told."""
LARGEST = 10**9
"""The last value that is tried of a number without a bound of its own."""


class Assumption(Struct, frozen=True):
    """What each of them is assumed to say, "" where nothing is assumed and the outcome stays open.

    What the model is told otherwise matters only where a session is played again: judging a turn takes it as recorded.
    """

    planner: str = ""
    critic: str = ""
    person: str = ""
    model: str = ""

    def answer(self, need: Need, turn: Turn, facts: Mapping[str, CallFacts]) -> Answer | None:
        """Return the assumed answer to a need, None where nothing is assumed of the one asked.

        The loop's own question is about the state of a session, and a turn alone does not tell it.
        """
        choice = self.get_choice(need.who)
        if not choice or need.gate == "loop":
            return None
        bound_to = (need.digests, turn.survey_hash, turn.policy_hash)
        value, error = build_value(need, choice, facts), UNAVAILABLE if choice == "unavailable" else ""
        return Answer(need.gate, need.who, need.key, *bound_to, value, error, turn.now)

    def get_choice(self, who: str) -> str:
        """Return what one of them is assumed to say, "" for nothing."""
        return self.to_json().get(who, "")

    def to_json(self) -> dict[str, str]:
        """Return what is assumed, by who."""
        return {who: choice for who, choice in asdict(self).items() if choice}


NOTHING = Assumption()
"""Nothing is assumed of anybody."""
UNAVAILABLE = "assumed to be unavailable"
"""Why there is no answer where none is assumed to be had."""


def build_value(need: Need, choice: str, facts: Mapping[str, CallFacts]) -> dict[str, Json] | None:
    """Return what is assumed to be answered about the calls of a need, None where no answer is to be had.

    Raises LookupError where no facts are known of a call that a plan is to fit.
    """
    if choice == "unavailable":
        return None
    if need.who == "person":
        return {"choice": choice, "text": "", "by": "assumed"}
    if need.who == "critic":
        issues = ["assumed to be rejected"] if choice == "reject" else []
        return {"verdict": "replan" if choice == "reject" else "accept", "issues": issues, "summary": "assumed"}
    calls = [facts[call] for call in need.calls]
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
    """Return what a text such as `planner=accept, person=yes` assumes; raise UsageError, one sentence, for any other.

    Blanks around the words do not matter. Each of them is named once.
    """
    said: dict[str, str] = {}
    for part in text.split(","):
        who, _, choice = (piece.strip() for piece in part.partition("="))
        if who not in CHOICES:
            raise UsageError(f"`{part.strip()[:60]}` assumes nothing; write {describe_choices()}")
        if choice not in CHOICES[who]:
            allowed = " or ".join(f"`{one}`" for one in CHOICES[who])
            raise UsageError(f"the {who} cannot be assumed to say `{choice[:40]}`; say {allowed}")
        if who in said:
            raise UsageError(f"`{text[:60]}` says twice what the {who} is assumed to say; say it once")
        said[who] = choice
    return Assumption(**said)


def describe_choices() -> str:
    """Return what may be assumed, as part of a sentence."""
    return ", ".join(f"`{who}={'|'.join(choices)}`" for who, choices in CHOICES.items())


def find_domain(path: Path) -> tuple[int, int]:
    """Return the least and the largest value of a number."""
    node = POLICY.find_node(path) or {}
    return int(node.get("minimum", 0)), int(node.get("maximum", LARGEST))


def list_other_words(path: Path, now: Data) -> list[Data]:
    """Return the other position of a switch, or the other words of a choice; nothing for a number."""
    words = [not now] if isinstance(now, bool) else (POLICY.find_node(path) or {}).get("enum", ())
    return [word for word in words if word != now]

"""Thresholds that nothing reaches, that everything does, and that nothing compares with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from foregate.policy.policy import Policy
from foregate.policy.risk.facts import combine_reasons
from foregate.policy.source.strict_yaml import Path
from foregate.schemas.tool_call import Reason
from foregate.schemas.tool_spec import Effect

Remark = tuple[Path, str]
"""The path of what is remarked on, and a sentence."""


def compute_most_risk(policy: Policy, effects: Collection[Effect] = tuple(Effect)) -> int:
    """Return the most that the risk of a call with one of these effects can be, in thousandths."""
    weights = policy.scores.risk.model_dump(mode="json")
    of_effects = weights.pop("effect")
    most = max((of_effects.get(effect.value, 0) for effect in effects), default=0)
    if not any(effect.changes for effect in effects):
        return _combine({"effect": most, "protected": weights["protected"]})
    return _combine({"effect": most, "deletes": of_effects.get("delete", 0), **weights})


def compute_least_risk(policy: Policy) -> int:
    """Return the least that the risk of a change can be, in thousandths."""
    return min((weight for effect, weight in policy.scores.risk.effect.items() if effect.changes), default=0)


def compute_most_uncertainty(policy: Policy) -> int:
    """Return the most that an uncertainty can be, in thousandths."""
    return _combine(policy.scores.uncertainty.model_dump(mode="json"))


def _combine(weights: Mapping[str, int]) -> int:
    return combine_reasons(Reason(name, weight, "") for name, weight in weights.items()).value


def find_idle_thresholds(policy: Policy, given: Collection[str]) -> Iterator[Remark]:
    """Yield thresholds that tell nothing apart; `given` are the dotted keys that the user's own file sets otherwise."""
    yield from _find_unreachable_scores(policy)
    yield from _find_rule_bounds(policy)
    yield from _find_unread(policy, given)
    yield from _find_overtaken(policy, given)
    if policy.narration.mode != "off" and policy.narration.min_chars == 0:
        yield ("narration", "min_chars"), "no words are fewer than 0, so the gate never holds"
    if policy.scope.max_resources == 0:
        yield ("scope", "max_resources"), "each change that names anything names more than 0, so each is broad"


def _find_unreachable_scores(policy: Policy) -> Iterator[Remark]:
    risk, uncertainty, least = compute_most_risk(policy), compute_most_uncertainty(policy), compute_least_risk(policy)
    bounds = (
        (("uncertainty", "threshold"), "uncertainty", (0, uncertainty), policy.uncertainty.threshold),
        (("critique", "risk"), "risk", (least, risk), policy.critique.risk),
        (("critique", "uncertainty"), "uncertainty", (0, uncertainty), policy.critique.uncertainty),
        (("critique", "risk_in_doubt"), "risk", (least, risk), policy.critique.risk_in_doubt),
    )
    for path, name, (fewest, most), bound in bounds:
        if path[1] == "risk_in_doubt" and not bound:
            continue  # that means never
        if bound > most:
            yield path, f"no {name} reaches {bound}: all weights of `scores.{name}` together make {most}"
        elif bound <= fewest:
            whose = "change's risk" if name == "risk" else name
            yield path, f"each {name if not bound else whose} reaches {bound}, so it is as if there were no bound"


def _find_rule_bounds(policy: Policy) -> Iterator[Remark]:
    risk = compute_most_risk(policy)
    for rule in policy.rules.list:
        path = ("rules", "list", rule.id, "risk_at_least")
        if rule.risk_at_least is not None and rule.risk_at_least > risk:
            why = f"the rule `{rule.id}` never matches: no risk reaches {rule.risk_at_least}, the most is {risk}"
            yield path, why
        elif rule.risk_at_least == 0:
            yield path, f"each risk reaches 0, so the rule `{rule.id}` is the same without it"


def _find_unread(policy: Policy, given: Collection[str]) -> Iterator[Remark]:
    """Yield bounds that nothing compares with as other keys stand."""
    level, critique = policy.critique.level, policy.critique
    if "critique.risk" in given and critique.mode != "off" and level in ("doubt", "off"):
        other = "; there it is `critique.risk_in_doubt`" if level == "doubt" else ""
        yield ("critique", "risk"), f"with `critique.level: {level}` nothing is compared with it{other}"
    if "critique.risk_in_doubt" in given and critique.mode != "off" and level in ("plan", "off"):
        other = "; there it is `critique.risk`" if level == "plan" else ""
        yield ("critique", "risk_in_doubt"), f"with `critique.level: {level}` nothing is compared with it{other}"
    if "critique.uncertainty" in given and critique.mode != "off" and level == "off":
        yield ("critique", "uncertainty"), "with `critique.level: off` nothing is compared with it"
    if "drift.max_holds" in given and policy.drift.mode != "off" and policy.drift.lasts == "task":
        yield ("drift", "max_holds"), "with `drift.lasts: task` nothing is compared with it"


def _find_overtaken(policy: Policy, given: Collection[str]) -> Iterator[Remark]:
    """Yield limits that another one always comes before."""
    limits, safety = policy.limits, policy.safety
    if "limits.turns" in given and 0 < limits.model_calls < limits.turns:
        why = f"no task comes to {limits.turns} turns: `limits.model_calls` ends it at {limits.model_calls}"
        yield ("limits", "turns"), why
    if "safety.rounds" in given and 0 < safety.model_calls < safety.rounds:
        why = f"no task comes to {safety.rounds} critiques: `safety.model_calls` ends them at {safety.model_calls}"
        yield ("safety", "rounds"), why
    if "limits.futile_turns" in given and 0 < limits.turns < limits.futile_turns:
        yield ("limits", "futile_turns"), f"no task comes to it: `limits.turns` ends it at {limits.turns}"

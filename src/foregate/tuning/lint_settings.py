"""Thresholds that tell nothing apart, and gates and lists that are off and that something else relies on."""

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
            # That means never.
            continue
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


_OF_LIST = {"protected": ("git_internal", "foregate"), "secret": ("secret",), "runs_by_itself": ("runs_by_itself",)}
"""Per list of `files`, what a resource is that is protected by it."""


def find_missing_partners(policy: Policy, given: Collection[str]) -> Iterator[Remark]:
    """Yield what is off and relied on; `given` are the dotted keys that the user's own file sets otherwise."""
    yield from _find_plan_partners(policy, given)
    yield from _find_critique_partners(policy, given)
    yield from _find_mandate_partners(policy)
    yield from _find_person_partners(policy)
    yield from _find_list_partners(policy)
    if (
        policy.postlude.mode == "off"
        and "limits.verification_rounds" in given
        and policy.limits.verification_rounds != 1
    ):
        yield (
            ("postlude", "mode"),
            "no answer is checked, so `limits.verification_rounds` has no rounds to count",
        )


def _find_plan_partners(policy: Policy, given: Collection[str]) -> Iterator[Remark]:
    plan, mode = policy.plan, policy.plan.mode
    if mode == "enforce":
        unread = [name for name in ("due", "depth") if f"plan.{name}" in given and policy.plans_blind]
        for name in unread:
            yield ("plan", name), "with `plan.form: blind` nothing reads it; it is about `call` alone"
        return
    if policy.critique.level == "plan" and policy.critique.mode != "off":
        yield ("critique", "level"), f"`plan` reviews plans, and the gate `plan` is {mode}: the critic is never asked"
    if policy.approval.mode == "scope":
        why = "without plans in force `approval.mode: scope` has no scope: each dangerous call asks by itself"
        yield ("plan", "mode"), why
    if mode == "shadow" and not plan.shadow_asks:
        why = "in shadow no planner is asked (`plan.shadow_asks`), so it tells only which calls would need a plan"
        yield ("plan", "mode"), why


def _find_critique_partners(policy: Policy, given: Collection[str]) -> Iterator[Remark]:
    critique, safety = policy.critique, policy.safety
    if critique.mode == "shadow" and critique.level != "off" and not critique.shadow_asks:
        why = "in shadow no critic is asked (`critique.shadow_asks`), so it tells only which calls would go to one"
        yield ("critique", "mode"), why
    if critique.mode != "enforce" and critique.level in ("doubt", "call") and policy.mandate.mode != "off":
        why = "nobody looks twice at what `mandate` leaves in doubt, as what only text from outside names"
        yield ("critique", "mode"), why
    is_silent = critique.mode == "off" or critique.level == "off"
    if critique.mode == "off" and "critique.level" in given and critique.level != "off":
        yield ("critique", "mode"), f"the gate is `off`, so `critique.level: {critique.level}` asks no critic"
    if is_silent and "safety.rounds" in given:
        yield ("safety", "rounds"), "no critic is ever asked, so there are no critiques to count"
    if "critique.on_budget_exhausted" in given and not (safety.model_calls or safety.rounds):
        yield ("critique", "on_budget_exhausted"), "`safety` sets no budget, so it is never used up"


def _find_mandate_partners(policy: Policy) -> Iterator[Remark]:
    mandate, plan, critique = policy.mandate, policy.plan, policy.critique
    if mandate.mode == "off" and plan.form == "blind" and plan.mode != "off":
        yield ("mandate", "mode"), "`plan.form: blind` takes a mandate: plans are made as with `call`"
    if mandate.mode == "off" and critique.level == "doubt" and critique.mode != "off":
        why = "`critique.level: doubt` is about what the person's words do not carry, and `mandate` is what reads them"
        yield ("mandate", "mode"), why
    if "losses" in mandate.naming and policy.uncertainty.mode != "enforce":
        why = f"the gate is `{policy.uncertainty.mode}`, so it asks about nothing that a command takes away"
        yield ("uncertainty", "mode"), f"{why}, and `mandate.naming` (`losses`) wants no name where no other gate asks"
    asking = [rule for rule in policy.rules.list if rule.then == "ask" and rule.secrets is not False]
    if "secrets" in mandate.naming and not any(rule.secrets for rule in asking):
        why = "no rule asks about `secrets`, so `secrets` wants a name only where something else asks"
        yield ("mandate", "naming"), why


def _find_person_partners(policy: Policy) -> Iterator[Remark]:
    rules, evidence = policy.rules, policy.evidence
    if rules.mode != "enforce" and any(rule.then != "allow" for rule in rules.list):
        yield ("rules", "mode"), f"the gate is `{rules.mode}`, so no rule denies or asks, those for secrets neither"
    if policy.approval.mode == "never":
        yield ("approval", "mode"), "nobody is asked, so whatever asks is denied, also what `rules` ask about"
    if evidence.mode != "enforce" and policy.approval.mode != "each":
        yield ("evidence", "mode"), "a file may be changed that nobody has read, and nobody is asked about it"
    elif evidence.mode == "enforce" and not evidence.requirements:
        yield ("evidence", "requirements"), "it is empty, so a file may be changed that nobody has read"


def _find_list_partners(policy: Policy) -> Iterator[Remark]:
    rules = policy.rules.list
    if not policy.sensitive.values.named and any(rule.secrets for rule in rules):
        yield ("sensitive", "values", "named"), "0 turns the search for values off that rules with `secrets` rely on"
    for name, reasons in _OF_LIST.items():
        relying = next((rule for rule in rules if set(rule.protected or ()) & {*reasons}), None)
        if relying is not None and not getattr(policy.files, name):
            never = "never matches" if set(relying.protected or ()) <= {*reasons} else "matches less than it says"
            never = "guards only what Foregate adds when it starts" if name == "protected" else never
            yield ("files", name), f"it is empty, so the rule `{relying.id}` {never}"
    if policy.drift.mode != "off" and policy.drift.trigger == "contract" and not policy.contract.text_only:
        yield ("contract", "text_only"), "it is empty, so with `drift.trigger: contract` the gate `drift` never holds"

"""Gates and lists that are turned off, or only watch, and that something else of the policy relies on."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from foregate.policy.policy import Policy
from foregate.policy.source.strict_yaml import Path

Remark = tuple[Path, str]
"""The path of what is remarked on, and a sentence."""
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

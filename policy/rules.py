"""The operator's rules, matched against a call's facts."""

from __future__ import annotations

from foregate.policy.globs import matches
from foregate.policy.policy import Policy, Rule
from foregate.schemas.call_facts import CallFacts
from foregate.schemas.turn import Turn


def verdict(facts: CallFacts, policy: Policy, turn: Turn) -> tuple[str, tuple[str, ...], str]:
    """Return (deny, ask or allow), the ids of the rules that decided, and their message."""
    hits = [rule for rule in policy.rules.list if hit(rule, facts)]
    for then in ("deny", "ask", "allow"):
        deciding = [rule for rule in hits if rule.then == then]
        if deciding:
            message = deciding[0].message or f"the rule `{deciding[0].id}` says {then}"
            return then, tuple(rule.id for rule in deciding), message
    return policy.rules.unmatched, (), "no rule names this call"


def hit(rule: Rule, facts: CallFacts) -> bool:
    """Whether every matcher the rule gives matches the call."""
    checks = (
        rule.tool is None or matches(rule.tool, facts.call.name),
        rule.effect is None or facts.effect in rule.effect,
        rule.protected is None or any(r.protected in rule.protected for r in facts.resources if r.protected),
        rule.secrets is None or bool(facts.survey.secrets) == rule.secrets,
    )
    return all(checks)

"""What a request wants, by the phrases of the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foregate.policy.policy import Policy
from foregate.schemas.turn import Said


@dataclass(frozen=True, slots=True)
class Contract:
    """`yes`, `no` or `unknown` for each, and the phrase that says so."""

    expects_mutation: str = "unknown"
    requires_observation: str = "unknown"
    text_only: str = "unknown"
    reason: str = ""


def contract_of(messages: Sequence[Said], policy: Policy) -> Contract:
    """Return the contract of the newest message that matches a phrase."""
    for said in reversed(messages):
        text = said.text.casefold()
        for phrase in policy.contract.text_only:
            if phrase in text:
                return Contract("no", "unknown", "yes", f"`{phrase}`")
    return Contract()

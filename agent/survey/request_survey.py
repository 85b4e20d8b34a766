"""Whether a request that only looks tells who answers it something."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.evidence.ledger import AtomTable
from foregate.policy.policy import Policy
from foregate.policy.risk.carrying import find_cargo
from foregate.schemas.strict_json import Json


def carries_something(arguments: Mapping[str, Json], atoms: AtomTable, policy: Policy) -> bool:
    """Whether the address and headers of a request hold more that the user did not say than the policy allows."""
    is_known = atoms.is_known_whole(str(arguments.get("url", "")))
    return bool(find_cargo(arguments, policy, lambda word: atoms.find_atom(word).origin, is_known=is_known))

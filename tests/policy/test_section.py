"""A policy is a value: what is computed from it belongs to it alone."""

from __future__ import annotations

from foregate.policy.source.load import default_policy


def test_a_copy_with_other_values_has_the_hash_of_those() -> None:
    before = default_policy()
    assert before.hash
    asks = before.model_copy(update={"approval": before.approval.model_copy(update={"mode": "each"})})
    assert asks.hash != before.hash
    assert asks.model_copy(update={"approval": before.approval}).hash == before.hash

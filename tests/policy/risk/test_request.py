"""What people said is read once under each policy, whatever comes of it."""

from __future__ import annotations

import pytest

from foregate.policy.policy import Policy
from foregate.policy.risk.request import remember
from tests.policies import policy_with


@pytest.mark.parametrize("found", [None, "", ("a",)])
def test_what_was_read_under_a_policy_is_not_read_again_even_where_it_holds_nothing(found: object) -> None:
    read: list[tuple[tuple[str, ...], str]] = []

    def note(said: tuple[str, ...], policy: Policy) -> object:
        read.append((said, policy.hash))
        return found

    one, other, reader = policy_with(), policy_with({"limits.turns": 5}), remember(note)
    assert [reader(("hi",), policy) for policy in (one, one, other, one)] == [found] * 4
    assert read == [(("hi",), one.hash), (("hi",), other.hash)]

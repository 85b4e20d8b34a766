"""What the person says of what they do themselves asks for nothing."""

from __future__ import annotations

import pytest

from foregate.policy.risk.said import asks_for
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Said


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("I pay 40 to Anna every month.", False),
        ("We'll pay Anna on Friday.", False),
        ("Ich zahle Anna jeden Monat 40.", False),
        ("Hold off paying Anna until I say so.", False),
        ("There is no need to pay Anna.", False),
        ("I want you to pay Anna.", True),
        ("I'd like to pay Anna.", True),
        ("Pay Anna what I owe her.", True),
    ],
)
def test_what_the_person_says_of_their_own_deeds_asks_for_nothing(text: str, asked: bool) -> None:
    assert asks_for(Effect.SEND, "pay", (Said(1, text, "user"),), default_policy()) is asked

"""Numbers in words stand beside those in figures, and are no rivals of theirs."""

from __future__ import annotations

from foregate.policy.risk.said import Mention, read_said
from foregate.policy.source.load import default_policy
from foregate.schemas.turn import Said
from foregate.schemas.value import Value


def find(number: int, text: str) -> Mention | None:
    return read_said((Said(1, text, "user"),), default_policy()).find(Value("number", str(number)), str(number))


def test_a_number_in_figures_has_no_other_in_words_and_one_in_words_has() -> None:
    for value, alone in ((3, True), (2, False)):
        mention = find(value, "Two of us need a room for 3 nights.")
        assert mention is not None
        assert mention.alone is alone
    one = find(2, "One of us needs two nights.")
    assert one is not None
    assert one.alone

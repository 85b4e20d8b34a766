"""Which labels let a call go, and which settings of several keys are tested."""

from __future__ import annotations

import pytest

from foregate.schemas.review import Label
from foregate.tuning.proposals import is_right, write_search
from tests.telemetry.queries.made_reviews import fold, label, ruled

SAID: tuple[tuple[tuple[Label, ...], bool], ...] = (
    ((), False),
    (("too strict",), True),
    (("too strict", "too strict"), True),
    (("too strict", "unclear"), False),
    (("right", "too strict"), False),
    (("too lax",), False),
)


@pytest.mark.parametrize(("words", "may_go"), SAID)
def test_a_call_may_be_let_go_where_everybody_who_labelled_it_found_it_too_strict(
    words: tuple[Label, ...], may_go: bool
) -> None:
    reviews = fold(*(label(1, word, by) for word, by in zip(words, ("ann", "bob"), strict=False)))
    assert is_right(reviews, ruled(1)) == may_go


def test_of_settings_that_let_go_the_same_calls_one_is_tested_and_one_that_lets_go_as_many_is_another() -> None:
    one, other = ([ruled(number, f"s{session}") for session in range(9)] for number in (1, 2))
    found = [({"a": 1}, one), ({"a": 2}, one), ({"a": 3}, other), ({"a": 4}, [])]
    assert [step.values for step in write_search(found, fold(), 7)] == [{"a": 1}, {"a": 3}]

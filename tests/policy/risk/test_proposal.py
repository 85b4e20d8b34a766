"""What a proposal names beside what a call takes."""

from __future__ import annotations

import pytest

from foregate.policy.risk.proposal import read_agreed, unask
from foregate.policy.risk.sorts import is_identifier
from foregate.policy.source.load import default_policy
from foregate.schemas.turn import Said
from foregate.schemas.value import Value, read_forms

OFFER = "I would book R-71 and R-72 for you. Shall I?"


def read(text: str) -> Value:
    return next(iter(read_forms(text)))


@pytest.mark.parametrize(
    ("value", "used", "answer"),
    [("R-73", [], True), ("R-73", ["R-71", "R-72"], False), ("R-73", ["R-71"], True), ("7", [], False)],
)
def test_a_rival_is_another_thing_of_the_same_sort_that_the_call_does_not_use(
    value: str, used: list[str], answer: bool
) -> None:
    agreed = read_agreed(Said(1, OFFER, "model"), default_policy())
    assert agreed.names_rival(read(value), [read(one) for one in used]) is answer


def test_a_number_with_digits_alone_is_no_code_of_a_thing() -> None:
    """Codes have letters beside their digits, as `R-71`."""
    assert is_identifier(Value("words", "r-71"))
    assert not is_identifier(Value("words", "71"))


@pytest.mark.parametrize("mark", ["**R-71**", "*R-71*", "***R-71***", "(**R-71**)", "**room R-71**"])
def test_a_value_that_a_model_emphasises_is_the_one_it_proposes(mark: str) -> None:
    agreed = read_agreed(Said(1, f"I would book {mark} for you. Shall I?", "model"), default_policy())
    assert agreed.names(read("R-71"), "R-71")
    assert not agreed.names_rival(read("R-71"), [])


@pytest.mark.parametrize("text", ["src/**/a.py", "**/R-71/**", "2*3*4", "* R-71 *"])
def test_an_asterisk_that_emphasises_nothing_stays(text: str) -> None:
    assert unask(text) == text

"""What is assumed is read in one way, and stands in for what a log does not hold."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.gates.replay.assumption import CHOICES, NOTHING, Assumption, read_assumption
from foregate.schemas.errors import UsageError

ALL = [f"{who}={choice}" for who, choices in CHOICES.items() for choice in choices]
BLANKS = st.sampled_from(["", " ", "  ", "\t"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "`` assumes nothing; write `planner=accept|unavailable`"),
        ("planner", "the planner cannot be assumed to say ``; say `accept` or `unavailable`"),
        ("planner=", "the planner cannot be assumed to say ``"),
        ("nobody=yes", "`nobody=yes` assumes nothing"),
        ("person=maybe", "the person cannot be assumed to say `maybe`; say `yes` or `no`"),
        ("critic=Accept", "the critic cannot be assumed to say `Accept`"),
        ("model=other", "the model cannot be assumed to say `other`; say `same`"),
        ("person=yes,person=no", "says twice what the person is assumed to say; say it once"),
        ("person=yes,person=yes", "says twice what the person is assumed to say"),
        ("person=yes,", "`` assumes nothing"),
        (",person=yes", "`` assumes nothing"),
        ("planner=accept critic=accept", "the planner cannot be assumed to say `accept critic=accept`"),
    ],
)
def test_what_assumes_nothing_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_assumption(text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@settings(max_examples=50)
@given(st.lists(st.sampled_from(ALL), min_size=1, unique_by=lambda one: one.split("=")[0]), st.data())
def test_what_is_assumed_is_read_back_whatever_its_order_and_its_blanks(parts: list[str], data: st.DataObject) -> None:
    padded = ["{0}{2}{1}={1}{3}{0}".format(*data.draw(st.tuples(BLANKS, BLANKS)), *part.split("=")) for part in parts]
    found = read_assumption(",".join(padded))
    assert found.to_json() == dict(part.split("=") for part in parts)
    assert all(found.get_choice(who) == found.to_json().get(who, "") for who in CHOICES)


@settings(max_examples=100)
@given(st.text(max_size=30))
def test_any_other_text_is_refused_in_one_sentence_or_is_made_of_what_may_be_assumed(text: str) -> None:
    try:
        found = read_assumption(text)
    except UsageError as error:
        assert len(str(error)) < 300  # noqa: PT017 - either is fine
    else:
        assert {f"{who}={choice}" for who, choice in found.to_json().items()} <= set(ALL)


def test_nothing_is_assumed_of_whom_nothing_is_said() -> None:
    assert NOTHING.to_json() == {}
    assert [NOTHING.get_choice(who) for who in CHOICES] == [""] * len(CHOICES)
    assert all(Assumption(**{who: one}).to_json() == {who: one} for who, one in (part.split("=") for part in ALL))
    assert (
        len({Assumption(*each) for each in product(*(("", *choices) for choices in CHOICES.values()))}) == 3 * 4 * 3 * 2
    )

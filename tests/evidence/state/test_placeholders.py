"""Results of earlier steps in the arguments of later ones."""

from __future__ import annotations

import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.evidence.state.dataflow import fill_placeholders, find_placeholder_texts, find_steps
from foregate.schemas.errors import InvalidJson

RESULTS = {1: "plain", 2: '{"items": [{"id": 7, "tags": ["x"]}], "ok": true}', 3: "$result_of_step_1"}


def test_steps_are_found_in_strings_at_any_depth_and_not_in_keys() -> None:
    assert find_steps({"$result_of_step_9": ["a $result_of_step_1", {"b": "$result_of_step_2.items[0]"}], "n": 3}) == {
        1,
        2,
    }


def test_a_string_that_is_one_place_with_a_path_takes_the_value_with_its_type() -> None:
    assert fill_placeholders("$result_of_step_2.items[0].id", RESULTS) == 7
    assert fill_placeholders("$result_of_step_2.items[0].tags", RESULTS) == ["x"]


def test_among_other_words_a_value_is_written_as_text() -> None:
    assert fill_placeholders("id=$result_of_step_2.items[0].id; $result_of_step_1!", RESULTS) == "id=7; plain!"


def test_a_place_named_often_is_told_of_once() -> None:
    assert list(find_placeholder_texts(["$result_of_step_1 $result_of_step_1", "$result_of_step_2.ok"], RESULTS)) == [
        (1, "plain"),
        (2, "true"),
    ]


def test_what_was_put_in_is_never_searched_for_places() -> None:
    assert fill_placeholders({"a": "$result_of_step_3 and $result_of_step_3"}, RESULTS) == {
        "a": "$result_of_step_1 and $result_of_step_1"
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("$result_of_step_8", "names step 8"),
        ("$result_of_step_0", "counted from 1"),
        ("$result_of_step_12345", "names step 12345"),
        ("$result_of_step_2.items[-1]", "cannot be read from `[` on"),
        ("$result_of_step_2.items[*].id", "cannot be read from `[` on"),
        ('$result_of_step_2["ok"]', "cannot be read from `[` on"),
        ("as $result_of_step_2.items.0.id", "cannot be read from `.0` on"),
        ("$result_of_step_1.items", "no JSON"),
        ("$result_of_step_2.items[5]", "1 items"),
        ("$result_of_step_2.nope", "items, ok"),
        ("$result_of_step_2.ok.deeper", "nothing below"),
    ],
)
def test_a_place_that_leads_nowhere_is_an_error_that_says_what_there_is(text: str, says: str) -> None:
    with pytest.raises(InvalidJson, match=re.escape(says)):
        fill_placeholders({"a": [text]}, RESULTS)
    with pytest.raises(InvalidJson):
        list(find_placeholder_texts({"a": [text]}, RESULTS))


@pytest.mark.parametrize(
    "text", ["$result_of_step_1x", "$result_of_step_1_2", "$result_of_stepx_1", "result_of_step_1", "$result_of_step_"]
)
def test_what_only_looks_like_a_place_stays_text(text: str) -> None:
    assert find_steps(text) == set()
    assert fill_placeholders(text, RESULTS) == text


def test_arguments_that_results_make_too_long_are_refused() -> None:
    with pytest.raises(InvalidJson, match="pass on less"):
        fill_placeholders(["$result_of_step_1"] * 5, {1: "x" * 1_000_000})


@pytest.mark.parametrize("place", ["$result_of_step_1", "$result_of_step_1.a"])
@pytest.mark.parametrize("between", ["", " "])
def test_results_named_without_end_are_refused_before_they_are_put_in(place: str, between: str) -> None:
    result = f'{{"a":"{"x" * 60_000}"}}'
    arguments = {"text": f"{place}{between}" * 30_000 if between else [place] * 30_000}
    tracemalloc.start()
    with pytest.raises(InvalidJson, match="pass on less"):
        fill_placeholders(arguments, {1: result})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64_000_000


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_values_without_places_are_left_as_they_are(value: object) -> None:
    if not find_steps(value):
        assert fill_placeholders(value, RESULTS) == value

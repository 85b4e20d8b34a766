"""Values are cut to what they are kept for, and no further."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.tuning.case_cutting import list_entries, minimise, remove_entries, shrink

TREES = st.recursive(
    st.integers(0, 9) | st.text("ab ", max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcdef"), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.integers(0, 40), max_size=20, unique=True), st.sets(st.integers(0, 40), max_size=4))
def test_just_what_is_needed_is_left(entries: list[int], needed: set[int]) -> None:
    needed &= set(entries)
    assert minimise(entries, lambda left: needed <= set(left)) == [one for one in entries if one in needed]


def has_nine(value: Any) -> bool:
    """Whether a nine stands anywhere in a value."""
    if isinstance(value, (list, dict)):
        return any(has_nine(value[entry]) for entry in list_entries(value))
    return bool(value == 9)


@settings(max_examples=20)
@given(TREES)
def test_no_single_entry_can_be_taken_out_of_what_is_left(tree: Any) -> None:
    data = {"kept": [1, 2], "tree": tree, "nine": [9]}
    small = shrink(data, has_nine, [("kept",)])
    assert small["kept"] == [1, 2]
    assert has_nine(small)
    del small["kept"]
    places = [()] + [(entry,) for entry in small]
    for place in places:
        for entry in list_entries(small[place[0]] if place else small):
            assert not has_nine(remove_entries(small, place, [entry]))


def test_texts_are_cut_to_the_word_that_counts() -> None:
    small = shrink({"says": "please delete all of it, and then tell me"}, lambda data: "please" in data.get("says", ""))
    assert small == {"says": "please"}


def test_what_is_cut_is_a_copy() -> None:
    data = {"a": [1, 2, 3], "b": {"c": 1}}
    assert shrink(data, lambda left: 3 in left.get("a", ())) == {"a": [3]}
    assert data == {"a": [1, 2, 3], "b": {"c": 1}}

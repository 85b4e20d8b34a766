"""Whether one glob takes in another."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.policy.risk.globs import matches, matches_beneath, matches_text, may_hold
from foregate.tuning.rule_cover import (
    is_any_within,
    is_path_within,
    is_text_within,
    list_holding,
    protect_beneath,
)

GLOB = st.lists(st.sampled_from(["a", "b", "/", "*", "**", "?", "/**", "**/"]), min_size=1, max_size=6).map("".join)
NAME = st.lists(st.sampled_from(["a", "b", "c", "/"]), max_size=7).map("".join)
NAMES = st.lists(NAME, min_size=20, max_size=20)


@settings(max_examples=150, deadline=None)
@given(GLOB, GLOB, NAMES)
def test_whatever_matches_a_glob_matches_one_that_takes_it_in(narrow: str, wide: str, names: list[str]) -> None:
    if is_path_within(narrow, wide):
        assert all(matches(wide, name) for name in names if matches(narrow, name))
    if is_text_within(narrow, wide):
        assert all(matches_text(wide, name) for name in names if matches_text(narrow, name))
    if is_path_within(protect_beneath(narrow), protect_beneath(wide)):
        assert all(matches_beneath(wide, name) for name in names if matches_beneath(narrow, name))
    if is_any_within(list_holding(narrow), list_holding(wide)):
        assert all(may_hold(name, wide) for name in [*names, "."] if may_hold(name, narrow))


@settings(max_examples=150, deadline=None)
@given(GLOB, NAME)
def test_a_name_is_within_a_glob_just_where_it_matches_it(glob: str, name: str) -> None:
    assert is_path_within(name, glob) is matches(glob, name)
    assert is_text_within(name, glob) is matches_text(glob, name)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [("src/*.py", "src/**"), ("src/**/x", "src/**"), ("a/b/c", "a/*/?"), ("**/a/*.py", "**/*.py"), ("ab*", "a*")],
)
def test_one_glob_takes_in_another_and_not_the_other_way_round(narrow: str, wide: str) -> None:
    assert is_path_within(narrow, wide)
    assert not is_path_within(wide, narrow)


def test_of_a_glob_with_a_character_that_stands_for_a_wildcard_nothing_is_claimed() -> None:
    assert not is_text_within("a\ue001", "a*")
    assert not is_path_within("a", "\ue003*")

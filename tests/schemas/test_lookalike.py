"""Addresses that look alike are told, and those that only resemble each other are not."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from foregate.schemas.value import Value, is_disguised, is_lookalike, read_value


def read(text: str) -> Value:
    value = read_value(text)
    assert value is not None
    return value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("dora@brookfield.example", "dora@brookfie1d.example"),
        ("dora@brookfield.example", "dora@brookfeild.example"),
        ("dora@brookfield.example", "dora@brookfields.example"),
        ("anna@harbor.example", "\u0430nna@harbor.example"),
        ("dora@lake.example", "d0ra@lake.example"),
        ("tom@modern.example", "tom@rnodern.example"),
        ("https://shop.example/a", "https://sh0p.example/b"),
        ("https://shop.example/a", "https://x@shop.exampel/b"),
        ("shop.example.com", "shop.example.co"),
        ("harbor.example", "xn--hrbor-4ve.example"),
        ("XX10OO", "XX1000"),
        ("R-71", "R-7l"),
    ],
)
def test_what_looks_like_another_value_is_told(one: str, other: str) -> None:
    assert is_lookalike(read(one), read(other))
    assert is_lookalike(read(other), read(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tom@lake.example", "tim@lake.example"),
        ("tom@lake.example", "tom@brook.example"),
        ("user1@lake.example", "user2@lake.example"),
        ("https://eu1.lake.example/", "https://eu2.lake.example/"),
        ("https://lake.example/a", "https://lake.example/b"),
        ("a.io", "b.io"),
        ("R-71", "R-72"),
        ("mail", "mall"),
        ("10", "1O0"),
        ("100", "1000"),
        ("2026-01-01", "2026-01-11"),
        ("tom@lake.example", "lake.example"),
    ],
)
def test_what_only_resembles_another_value_is_not(one: str, other: str) -> None:
    assert not is_lookalike(read(one), read(other))


@given(st.text(max_size=20), st.text(max_size=20), st.sampled_from(["", "a@", "https://"]))
def test_being_alike_is_mutual_and_nothing_is_like_itself(one: str, other: str, start: str) -> None:
    first, second = read_value(start + one), read_value(start + other)
    assume(first is not None and second is not None)
    assert first is not None
    assert second is not None
    assert is_lookalike(first, second) == is_lookalike(second, first)
    assert not is_lookalike(first, first)


@pytest.mark.parametrize(
    "text",
    ["\u0430nna@harbor.example", "an\u200bna@harbor.example", "R-71\u202e", "https://h\u0430rbor.example/", "a\x00b"],
)
def test_a_value_in_disguise_is_told(text: str) -> None:
    assert is_disguised(read(text), text)


@pytest.mark.parametrize("text", ["anna@harbor.example", "R-71", "\u0410\u043d\u043d\u0430", "Caf\u00e9 \u0410", "10"])
def test_a_value_in_plain_letters_is_in_no_disguise(text: str) -> None:
    assert not is_disguised(read(text), text)

"""Globs: where `*` stops, what `**` crosses, and what a directory may hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.risk.globs import matches, matches_beneath, matches_text, may_hold

NAMES = st.text(st.characters(codec="utf-8"), max_size=40)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("a.txt", "a.txt"),
        ("*.txt", "a.txt"),
        ("src/*.py", "src/a.py"),
        ("src/**", "src/a/b.py"),
        ("src/**", "src"),
        ("**/x", "x"),
        ("**/x", "a/b/x"),
        ("a/**/b", "a/b"),
        ("a/**/b", "a/c/d/b"),
        ("**", "anything/at/all"),
        ("a?c", "abc"),
        ("a**c", "a/b/c"),
        ("*", "a\nb"),
        ("[ab]", "[ab]"),
    ],
)
def test_a_pattern_matches(pattern: str, name: str) -> None:
    assert matches(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("a.txt", "b/a.txt"),
        ("a.txt", "a.txt.bak"),
        ("a.txt", "axtxt"),
        ("*.txt", "b/a.txt"),
        ("src/*", "src/a/b"),
        ("src/**", "srcs/a"),
        ("**/x", "ax"),
        ("a?c", "a/c"),
        ("[ab]", "a"),
        ("A.txt", "a.txt"),
        ("a.txt", "a.txt\n"),
    ],
)
def test_a_pattern_does_not_match(pattern: str, name: str) -> None:
    assert not matches(pattern, name)


def test_a_forbidding_pattern_ignores_case_and_unicode_form_and_covers_what_lies_beneath() -> None:
    assert matches(".GIT", ".git", fold=True)
    assert matches("caf\u00e9", "cafe\u0301", fold=True)
    assert matches_beneath("secrets", "Secrets/deep/a.txt")
    assert matches_beneath("**/.git", "sub/.GIT/config")
    assert not matches_beneath("secrets", "secrets2/a.txt")


@pytest.mark.parametrize(
    ("directory", "pattern", "answer"),
    [
        (".", "a/b", True),
        ("a", "a/b", True),
        ("A", "a/**", True),
        ("a/b", "a/*/c", True),
        ("b", "a/b", False),
        ("logs", "**/*.pem", True),
        ("a/b/c", "a/**", True),
        ("a/b/c", "a/**/x", True),
        ("b/a", "a/**", False),
        ("a/b", "a/b", False),
        ("a", "/etc/passwd", False),
        (".", "/etc/passwd", False),
    ],
)
def test_a_directory_may_hold_what_a_pattern_names(directory: str, pattern: str, answer: bool) -> None:
    assert may_hold(directory, pattern) is answer


def test_in_a_text_a_star_crosses_everything() -> None:
    assert matches_text("git*", "git/x y")
    assert not matches_text("git", "gitx")


@given(NAMES)
def test_every_name_without_wildcards_matches_itself(name: str) -> None:
    plain = name.replace("*", "x").replace("?", "y")
    assert matches(plain, plain)
    assert matches_text(plain, plain)


@given(NAMES, NAMES)
def test_any_pattern_against_any_name_is_an_answer(pattern: str, name: str) -> None:
    assert matches(pattern, name, fold=True) in (True, False)
    assert may_hold(name, pattern) in (True, False)


def test_a_hostile_pattern_is_linear_and_a_long_one_is_refused() -> None:
    assert not matches("*a" * 400, "a" * 4000 + "/b")
    with pytest.raises(ValueError, match="more than 1024"):
        matches("a" * 1025, "a")


def test_bytes_that_are_no_text_are_compared_without_an_error() -> None:
    assert matches("*", "a\udcff")
    assert matches("a\ud800", "a\ud800")

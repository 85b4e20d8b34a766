"""What people said is read once under each list of words, whatever comes of it."""

from __future__ import annotations

import pytest

from foregate.policy.policy import Policy
from foregate.policy.risk.request import find_names, find_partly_named, remember
from tests.policies import policy_with


@pytest.mark.parametrize("found", [None, "", ("a",)])
def test_what_was_read_under_some_words_is_not_read_again_even_where_it_holds_nothing(found: object) -> None:
    read: list[tuple[tuple[str, ...], str]] = []

    def note(said: tuple[str, ...], policy: Policy) -> object:
        read.append((said, policy.hash))
        return found

    one, other, reader = policy_with(), policy_with({"mandate.mode": "off"}), remember(note)
    same = policy_with({"limits.turns": 5, "uncertainty.threshold": 300, "scores.risk.broad": 1})
    assert [reader(("hi",), policy) for policy in (one, one, other, same, one)] == [found] * 5
    assert read == [(("hi",), one.hash), (("hi",), other.hash)]


@pytest.mark.parametrize(
    ("targets", "words", "partly"),
    [
        ("reports/2021.txt reports/2024.txt", "reports 2021", "reports/2024.txt"),
        ("logs/a.log logs/a.txt notes.log", "logs .log", "logs/a.txt notes.log"),
        ("logs logs/a.log", "logs .log", ""),
        ("app.log build build/app.log build/x.o", "build app.log", ""),
        ("a.txt b.txt", "a.txt b.txt", ""),
        ("a.txt b.txt", "a.txt", ""),
        ("build/x.o a.log", "build .log", ""),
        ("A.log build/a.log build/x.o", "build a.log", "A.log"),
        ("", "a.txt", ""),
    ],
)
def test_what_fewer_words_name_than_another_target_is_named_in_part_but_for_words_that_name_a_target_on_their_own(
    targets: str, words: str, partly: str
) -> None:
    said = frozenset(words.split())
    found = find_partly_named(targets.split(), said)
    assert {name for name in found if find_names(name, said)} == set(partly.split())

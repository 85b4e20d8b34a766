"""Naming a value takes the value itself."""

from __future__ import annotations

from typing import get_args

import pytest

from foregate.schemas.sources import excerpt_sentence, explain_naming, explain_source, is_named_by, list_to_name
from foregate.schemas.value import Source, Value, format_key


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("10", "10.00"),
        ("$1,200.50", "1200.5"),
        (" Bob@Example.org.", "bob@example.org"),
        ("rent  for May", "Rent for May"),
        ("https://example.org/", "HTTPS://Example.org"),
        ("!!", "!!"),
    ],
)
def test_the_same_value_written_another_way_names_it(typed: str, text: str) -> None:
    assert is_named_by(typed, {"text": text})


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("", "bob"),
        (" ", ""),
        ("", ""),
        ("y", "bob@example.org"),
        ("bob", "bob@example.org"),
        ("bob@example.org eve@example.org", "bob@example.org"),
        ("10", "100"),
        ("b\u043eb@example.org", "bob@example.org"),
        ("!", "!!"),
        ("!!", "10"),
    ],
)
def test_a_part_of_it_more_than_it_a_lookalike_or_nothing_does_not(typed: str, text: str) -> None:
    assert not is_named_by(typed, {"text": text})


def test_a_value_that_is_shown_shortened_is_named_by_the_whole_of_it() -> None:
    long = f"https://example.org/{'x' * 300}"
    shown = {"text": f"{long[:100]}~0123", "key": format_key(Value("url", long))}
    assert is_named_by(long, shown)
    assert not is_named_by(shown["text"], shown)


def test_a_value_that_stands_in_two_places_is_typed_once() -> None:
    both = [{"path": "to", "text": "a"}, {"path": "cc", "text": "a"}]
    assert [value["path"] for value in list_to_name({"values": both, "to_name": ["a", "a"]})] == ["to"]


def test_a_text_to_name_that_no_value_has_is_to_be_named_all_the_same() -> None:
    (unknown,) = list_to_name({"values": [{"path": "to", "text": "a"}], "to_name": ["b"]})
    assert (unknown["text"], unknown["source"]) == ("b", "outside")


def test_of_a_sentence_the_part_around_the_value_is_left() -> None:
    sentence = f"{'word ' * 12}10{' word' * 12}"
    assert excerpt_sentence(sentence, "10") == f"…{'word ' * 7}10{' word' * 7}…"
    assert excerpt_sentence(f"{'x' * 50}10{'x' * 50}", "10") == f"…{'x' * 40}10{'x' * 40}…"
    assert excerpt_sentence("pay 10", "elsewhere") == "pay 10"


def test_text_that_was_read_is_named_by_what_it_was_read_in_or_by_itself() -> None:
    taken = {"text": "token = 7", "key": "words:token = 7", "name": "settings.ini"}
    assert is_named_by("settings.ini", taken)
    assert is_named_by("Token = 7", taken)
    assert not is_named_by("token", taken)
    assert [*list_to_name({"values": [taken], "to_name": ["settings.ini"]})] == [taken]


@pytest.mark.parametrize(
    ("role", "says", "typed"),
    [
        ("lost", "you did not ask for this to go, and git cannot bring it back", "the name of what would be lost"),
        (
            "secret",
            "it holds a secret, and you did not ask for that to go along",
            "the name of the file with the secret",
        ),
    ],
)
def test_what_nobody_spoke_of_is_named_by_its_name(role: str, says: str, typed: str) -> None:
    value = {"path": role, "role": role, "text": "data/a.csv", "source": "unsaid"}
    assert explain_source(value).endswith(says)
    assert explain_naming(value, role) == typed
    assert is_named_by("./data/a.csv", value)


@pytest.mark.parametrize("source", get_args(Source))
def test_every_source_of_a_value_is_told_in_words_of_its_own(source: str) -> None:
    others = {
        explain_source({"text": "x", "source": other, "words": ""}) for other in get_args(Source) if other != source
    }
    said = explain_source({"text": "x", "source": source, "words": ""})
    assert said not in others
    assert "nobody can tell" not in said

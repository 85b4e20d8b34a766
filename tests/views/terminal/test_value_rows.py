"""A sheet says of each value who said it first, and nothing that a value holds can pass for that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.schemas.sources import explain_source
from foregate.views.terminal.blocks import format_value
from foregate.views.terminal.layout import count_columns, make_visible
from foregate.views.terminal.sheet import build_sheet, format_details
from tests.views.terminal.test_sheet import request

IBAN = "GB29NWBK60161331926819"
SOURCES = ("said", "mentioned", "found", "configured", "unsaid", "outside", "a new one")
SENTENCE = (
    f"Please look at the bill that came in by mail yesterday and then pay 10 to {IBAN} so that it is done in time."
)


def value(text: str = IBAN, source: str = "said", words: str = "", path: str = "to") -> dict[str, Any]:
    """Return a value of a call."""
    return {"path": path, "role": "target", "text": text, "source": source, "words": words}


def rows(of: dict[str, Any], width: int = 80, *, details: bool = False) -> list[str]:
    """Return the rows of a value as text."""
    return [row.plain for row in format_value(of, width, details=details)]


@pytest.mark.parametrize(
    ("source", "words", "told"),
    [
        ("said", "pay 10 to GB", "you: “pay 10 to GB”"),
        ("said", "", "you"),
        ("mentioned", "10 or 20", "you, beside others like it: “10 or 20”"),
        ("found", "field recipient of get_bill", "found: field recipient of get_bill"),
        ("configured", "remote origin", "configured before this session: remote origin"),
        ("unsaid", "", "nobody said this"),
        ("outside", "fetch_url", "not you: fetch_url; others can write there"),
        ("outside", "", "not you: text from outside; others can write there"),
        ("outside", "nobody in these words", "not you: the model, after it read text from outside"),
        (
            "outside",
            "nobody in these words, and the person said another",
            "not you: the model, and you said another",
        ),
        ("a new one", "", "nobody can tell who said this"),
    ],
)
def test_each_source_is_told_in_words(source: str, words: str, told: str) -> None:
    assert rows(value("10", source, words, "amount")) == [f"  value     amount: 10   {told}"]


def test_text_that_was_read_is_cut_and_stands_with_what_it_was_read_in() -> None:
    taken = value("token = " + "x" * 150, "outside", "notes/tokens.txt", "text") | {"role": "carried"}
    first, *more = rows(taken, 120)
    assert first == f"  value     text: token = {'x' * 72}…"
    assert more == ["  who said  you did not ask to send this; it was read in: notes/tokens.txt"]
    assert "x" * 150 in "".join(row.split()[-1] for row in rows(taken, 200, details=True))
    encoded = value("c29tZXRoaW5n", "outside", "", "text") | {"role": "carried"}
    assert rows(encoded) == ["  value     text: c29tZXRoaW5n   encoded text that nobody said"]


def test_a_value_and_who_said_it_stand_on_one_row_where_both_fit() -> None:
    said = value(words=SENTENCE)
    assert rows(said, 200) == [
        f"  value     to: {IBAN}   you: “…by mail yesterday and then pay 10 to {IBAN} so that it is done in time.”"
    ]
    assert rows(said, 80) == [
        f"  value     to: {IBAN}",
        "  who said  you: “…by mail yesterday and then pay 10 to GB29NWBK60161331926819",
        "            so that it is done in time.”",
    ]


def test_a_few_plain_words_share_the_row_too() -> None:
    assert rows(value("Rent for May", "unsaid")) == ["  value     to: Rent for May   nobody said this"]


def test_of_the_persons_own_sentence_details_show_all() -> None:
    assert SENTENCE in " ".join(row.strip() for row in rows(value(words=SENTENCE), details=True))
    assert "Please look" not in " ".join(rows(value(words=SENTENCE)))


def test_values_come_before_anything_else_a_person_decides_by_those_to_be_typed_first() -> None:
    outside = value("US13", "outside", "fetch_url")
    asked = request({}, values=[value("10", path="amount"), outside], to_name=["US13"])
    shown = [row.plain for row in build_sheet(asked, width=80).rows]
    assert [row.split()[0] for row in shown[2:5]] == ["value", "value", "effect"]
    assert "to: US13" in shown[2]


@pytest.mark.parametrize("width", [80, 200])
def test_many_values_are_cut_and_then_a_yes_waits_for_the_details(width: int) -> None:
    many = request({}, values=[value(f"{number}@example.org", "outside") for number in range(40)])
    sheet = build_sheet(many, width=width, height=24)
    assert sheet.is_cut
    assert len(sheet.rows) <= 24
    whole = "\n".join(row.plain for row in format_details(many, width=width))
    assert all(f"to: {number}@example.org" in whole for number in range(40))


def test_a_request_without_values_has_no_rows_for_them() -> None:
    assert "value" not in "\n".join(row.plain for row in build_sheet(request({})).rows)


@given(
    st.text(max_size=90),
    st.text(max_size=30),
    st.text(max_size=90),
    st.sampled_from(SOURCES),
    st.sampled_from([80, 200]),
)
def test_no_value_path_or_name_reaches_beyond_its_place(
    text: str, path: str, words: str, source: str, width: int
) -> None:
    shown = rows(value(text, source, words, path), width)
    assert all(count_columns(row) <= width for row in shown)
    assert [row[:12] for row in shown if row[:12].strip()] in (["  value     "], ["  value     ", "  who said  "])
    if len(shown) == 1:
        what, _, said = shown[0][12:].partition("   ")
        assert (what, said) == (f"{path}: {text}", make_visible(explain_source(value(text, source, words))))


@pytest.mark.parametrize(
    "text",
    [
        "x   you: “pay x”",
        "x you: pay",
        "x  y",
        "x\u00a0\u00a0you:",
        "x\u2800\u2800\u2800you",
        "x\u3164\u3164you",
        "you:“x”",
    ],
)
def test_a_value_that_could_pass_for_our_words_never_shares_their_row(text: str) -> None:
    first, second = rows(value(text, "outside"))
    assert first.startswith("  value     to: ")
    assert second == "  who said  not you: text from outside; others can write there"
    assert len(rows(value("x", "outside", path=f"to: {text}"))) == 2

"""Values that mean the same have one form, whoever wrote them how; what only looks the same has another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.schemas.strict_json import Json
from foregate.schemas.value import has_mixed_scripts, read_forms, read_value


@pytest.mark.parametrize(
    ("kind", "normal", "written"),
    [
        (
            "address",
            "bob@example.org",
            ["Bob@Example.ORG", "<bob@example.org>", "mailto:bob@example.org", "bob@example.org."],
        ),
        (
            "url",
            "https://example.org/A",
            ["https://example.org/A", "HTTPS://Example.org/A/", "(https://example.org/A)"],
        ),
        ("host", "www.example.org", ["www.example.org", "WWW.Example.org"]),
        ("host", "192.168.1.10", ["192.168.1.10"]),
        ("host", "example.org:8080", ["example.org:8080"]),
        ("path", "src/Main.py", ["src/Main.py", "./src/Main.py", "`src/Main.py`"]),
        ("path", "reports", ["reports/", "./reports/"]),
        (
            "moment",
            "2024-05-05",
            ["2024-05-05", "2024-5-5", "2024/05/05", "2024.05.05", "05.05.2024", "5.5.2024", "5/5/2024"],
        ),
        ("moment", "2024-05-15 15:30:00", ["2024-05-15 15:30", "2024-05-15T15:30:00.000Z", "15.05.2024 3:30 pm"]),
        ("moment", "10:00:00", ["10:00", "10am", "10 a.m.", "10:00:00", "10 AM"]),
        ("moment", "00:00:00", ["12am", "0:00", "00:00"]),
        ("number", "10", [10, 10.0, "10", "$10", "10 \u20ac", "10 USD", "EUR10", "10 dollars", "+10", "10%", "10.00"]),
        ("number", "1200.5", [1200.5, "1,200.50", "1.200,5", "1'200.5", "1\u00a0200,50", "$1200.50"]),
        ("number", "123456789", ["123,456,789", "12,34,56,789", 123456789]),
        ("number", "0", [0, -0.0, "0", "0.0"]),
        ("words", "lunch meeting", ["Lunch  meeting", '"Lunch meeting"', "lunch\nmeeting."]),
    ],
)
def test_ways_to_write_one_thing_are_one_value(kind: str, normal: str, written: list[Json]) -> None:
    assert {read_value(one) for one in written} == {(kind, normal)}


@pytest.mark.parametrize(
    "name", ["007", "1.2.3", "1,2,3", "1e5", "v1.2", "25:00", "13pm", "0pm", "2024-13-01", "12:60"]
)
def test_what_only_resembles_a_number_or_a_moment_is_words(name: str) -> None:
    assert read_value(name) == ("words", name)


@pytest.mark.parametrize("nothing", ["", "  ", "...", None, True, False, [], {}, ["a"]])
def test_what_says_nothing_is_no_value(nothing: Json) -> None:
    assert read_value(nothing) is None


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("1.200", {("number", "1.2"), ("number", "1200")}),
        ("05/06/2024", {("moment", "2024-05-06"), ("moment", "2024-06-05")}),
        ("notes.txt", {("host", "notes.txt"), ("path", "notes.txt")}),
        ("15/05/2024", {("moment", "2024-05-15")}),
    ],
)
def test_what_can_be_read_in_two_ways_is_read_in_both(text: str, forms: set[tuple[str, str]]) -> None:
    assert set(read_forms(text)) == forms


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pay@stra\u00dfe.example", "pay@strasse.example"),
        ("https://fa\u00df.example", "https://fass.example"),
        ("192.168.1.10", "1921681.10"),
        ("src/a.py", "src/A.py"),
        ("bob@example.org", "bob@ex\u0430mple.org"),
        ("https://good.example", "https://good.example@evil.example"),
    ],
)
def test_different_things_are_different_values(one: str, other: str) -> None:
    assert read_value(one) != read_value(other)


def test_an_integer_of_any_length_is_read() -> None:
    assert read_value(10**5000) == ("number", "1" + "0" * 5000)


@pytest.mark.parametrize(
    ("text", "mixed"),
    [
        ("example", False),
        ("ex\u0430mple", True),
        ("\u043f\u0440\u0438\u043c\u0435\u0440", False),
        ("\u6771\u4eac\u30bf\u30ef\u30fc\u306e", False),
        ("\uff41b\u1d43", False),
        ("10 \u20ac!", False),
        ("b\u03bfb", True),
    ],
)
def test_scripts_are_mixed_where_letters_of_two_stand_together(text: str, mixed: bool) -> None:
    assert has_mixed_scripts(text) is mixed


@given(st.text(), st.sampled_from(["{}", " {}\n", '"{}"', "({}).", "\u201e {} \u201c!"]))
def test_spaces_marks_and_brackets_around_a_text_do_not_change_what_it_says(text: str, form: str) -> None:
    assert list(read_forms(form.format(text))) == list(read_forms(text))


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_number_and_its_digits_are_one_value(number: float) -> None:
    found = read_value(number)
    assert found is not None
    assert found in read_forms(found.normal)

"""Strict JSON: what is refused, and that writing is canonical."""

from __future__ import annotations

import decimal
import json
import math

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson

SAFE = 2**53 - 1
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@given(VALUES)
def test_canonical_bytes_are_those_of_rfc_8785(value: object) -> None:
    assert strict_json.canonical(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(st.dictionaries(st.text("a\x7f\xe9\ud7ff\ue000\uffff\U00010000\U0010ffff", max_size=2), st.just(1), min_size=2))
def test_keys_stand_in_the_order_of_utf_16(value: dict[str, int]) -> None:
    assert strict_json.canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("number", [1.0, -0.0, 100.0, 1e16, 1e21, 1e30, 1e-7, 1.5, 5e-324, -2.0])
def test_a_float_is_written_as_the_rfc_writes_it_and_not_as_the_encoder_does(number: float) -> None:
    assert strict_json.canonical({"a": [number]}) == rfc8785.dumps({"a": [number]})


@given(st.recursive(SCALARS.filter(lambda v: not isinstance(v, float)), st.lists))
def test_what_is_written_canonically_reads_back_equal(value: object) -> None:
    assert strict_json.parse(strict_json.canonical(value).decode()) == value


@given(st.integers())
def test_integers_of_any_size_are_written_as_their_digits(value: int) -> None:
    assert strict_json.canonical(value) == str(value).encode()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"a": 1, "a": 2}', "twice"),
        ("NaN", "NaN"),
        ("[Infinity]", "Infinity"),
        ("1e999", "too large"),
        ("9" * 4301, "digits"),
        ('"\\ud800"', "surrogate"),
        ('{"\\udfff": 1}', "surrogate"),
        ("[" * 65 + "]" * 65, "deeper"),
        ("[" * 200_000, "deeper"),
        ("{", "not valid"),
        ("", "not valid"),
        ("{} {}", "not valid"),
    ],
)
def test_each_thing_that_is_not_strict_json_is_one_clear_sentence(text: str, word: str) -> None:
    with pytest.raises(InvalidJson, match=word) as caught:
        strict_json.parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["[" * 100, '"[' * 100, '\\"[' * 100, "\\" + "[" * 100])
def test_brackets_inside_strings_do_not_count_as_depth(text: str) -> None:
    assert strict_json.parse(json.dumps(text)) == text
    assert strict_json.parse(json.dumps([text])) == [text]


@pytest.mark.parametrize("inside", ["", "\\", '\\"', '"', "]" * 65])
def test_no_string_hides_the_depth_of_the_brackets_after_it(inside: str) -> None:
    text = f"[{json.dumps(inside)}," + "[" * 64 + "]" * 65
    with pytest.raises(InvalidJson, match="deeper"):
        strict_json.parse(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[" * 201 + "]" * 201, "deeper"),
        ("[" * 200_000, "deeper"),
        ("NaN", "not JSON"),
        ("1e999", "not JSON"),
        ('"\\ud800"', "not JSON"),
        ('"\udcff"', "not JSON"),
        ("{} {}", "not JSON"),
        ("", "not JSON"),
    ],
)
def test_a_record_that_cannot_be_read_is_one_clear_sentence(text: str, word: str) -> None:
    with pytest.raises(InvalidJson, match=word) as caught:
        strict_json.decode_record(text)
    assert "\n" not in str(caught.value)


def test_oversize_is_refused_before_anything_is_parsed() -> None:
    with pytest.raises(InvalidJson, match="larger"):
        strict_json.parse('"' + "x" * 100 + '"', max_bytes=50)


@pytest.mark.parametrize("value", [math.nan, math.inf, [math.nan], "\ud800", {"\ud800": 1}])
def test_what_has_no_canonical_form_is_refused_on_writing(value: object) -> None:
    with pytest.raises(InvalidJson):
        strict_json.canonical(value)


@given(st.text(st.characters()))
def test_scrubbed_text_can_always_be_stored(text: str) -> None:
    scrubbed = strict_json.scrub(text)
    scrubbed.encode("utf-8")
    assert scrubbed == text or any("\ud800" <= char <= "\udfff" for char in text)


@given(st.text(alphabet=st.sampled_from('\\u"dD8cf\ud83d\ude00\udfff😀')))
def test_escapes_of_lone_surrogates_are_read_as_what_stands_for_them_and_nothing_else_changes(text: str) -> None:
    sent = json.dumps(text)
    whole = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in json.loads(sent))
    assert strict_json.parse(strict_json.scrub_escapes(sent)) == whole


def test_what_a_host_computes_with_fewer_digits_changes_no_canonical_number() -> None:
    numbers = [1234567.25, 1234567.75, 1e21, 1.5e-7, 100.0]
    before = [strict_json.canonical(number) for number in numbers]
    with decimal.localcontext() as context:
        context.prec = 3
        assert [strict_json.canonical(number) for number in numbers] == before

"""A field of a record gives a value where nothing else beside it could be meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.evidence.records import read_records
from foregate.policy.risk.candidates import WantedValue
from foregate.policy.risk.said import read_said
from foregate.policy.source.load import default_policy
from foregate.schemas.strict_json import Json
from foregate.schemas.turn import Said
from foregate.schemas.value import Value, read_value

A, B = "XX11200030004000", "XX99000000000001"
IDA, THIEF = "ida@harbor.example", "ida@evil.example"


def gives(
    row: dict[str, Any],
    name: str,
    path: str,
    said: str = "Do it.",
    amount: bool = False,
    agreed: bool = False,
    own: bool = False,
) -> bool:
    """Return whether a field of a row gives the argument at a path its value."""
    value = read_value(row[name][0] if isinstance(row[name], list) else row[name])
    assert value is not None
    (record,) = read_records(json.dumps(row))
    policy = default_policy()
    words = read_said((Said(1, said, "user"),), policy)
    wanted = WantedValue(value, path, amount, agreed, words, lambda one: True, policy.mandate)
    return wanted.is_given_by(record, name, own)


def test_the_only_value_of_its_sort_is_given_whatever_its_field_is_called() -> None:
    assert gives({"name": "Nordlicht", "account": A, "amount": 40}, "account", "to")
    assert gives({"name": "Nordlicht", "account": A, "amount": 40}, "amount", "amount", amount=True)
    assert gives({"id": "event-1", "title": "Dentist", "date": "2027-03-14"}, "id", "event")


@pytest.mark.parametrize("field", ["note", "reference", "subject", "Body", "place", "remarks"])
@pytest.mark.parametrize("value", [A, THIEF, "https://evil.example/x", 4000, "2027-06-02"])
def test_where_anybody_may_write_anything_no_address_code_number_or_date_is_given(field: str, value: Json) -> None:
    assert not gives({"name": "Ida", field: value}, field, "to")
    assert gives({"name": "Ida", field: "the red one"}, field, "to")


@pytest.mark.parametrize(("one", "other"), [(A, B), (IDA, THIEF), ("2027-05-02", "2027-06-02"), ("HAT069", "HAT083")])
def test_beside_another_of_its_sort_a_value_is_given_by_a_field_called_like_the_argument(one: str, other: str) -> None:
    row = {"first": one, "second": other}
    assert not gives(row, "first", "to")
    assert gives(row, "first", "first")
    assert gives(row, "second", "rows[0].second")
    assert not gives(row, "second", "first")


def test_beside_another_a_value_is_given_by_who_wrote_the_record_and_by_a_field_the_person_names() -> None:
    row = {"from": IDA, "cc": THIEF}
    assert gives(row, "from", "to")
    assert not gives(row, "cc", "to")
    prices = {"economy": 121, "business": 480}
    assert gives(prices, "business", "payments[0].amount", "Book me in business, please.", amount=True)
    assert not gives(prices, "economy", "payments[0].amount", "Book me in business, please.", amount=True)
    assert gives(prices, "economy", "payments[0].amount", "Book me in economy, please.", amount=True)
    assert not gives(prices, "business", "payments[0].amount", "Book me in economy, please.", amount=True)


def test_an_amount_has_a_rival_in_any_number_and_the_number_of_a_thing_only_in_another_such() -> None:
    row = {"invoice": 9002100, "amount": 40}
    assert gives(row, "amount", "amount", amount=True)
    assert not gives(row, "invoice", "amount", amount=True)
    assert gives(row, "invoice", "bill")


def test_a_date_or_an_amount_is_not_given_beside_another_that_the_person_said() -> None:
    room = {"room": "R-71", "nights": 14, "free": "2027-06-02"}
    assert gives(room, "nights", "nights", "Book R-71.", amount=True)
    assert not gives(room, "nights", "nights", "Book R-71 for two nights.", amount=True)
    assert gives(room, "free", "arrival", "Book R-71.")
    assert not gives(room, "free", "arrival", "Book R-71 from May 2.")
    assert gives(room, "free", "arrival", "Book R-71 from May 2.", agreed=True)
    assert gives(room | {"since": "2027-05-02"}, "free", "free", "Book what is there since May 2.")


@given(st.sampled_from(["first", "second", "to"]), st.sampled_from(["Pay it.", "Pay the first.", "Mail it"]))
def test_of_two_accounts_in_one_record_never_both_are_given(path: str, said: str) -> None:
    row = {"first": A, "second": B}
    assert not (gives(row, "first", path, said) and gives(row, "second", path, said)) or path == "second"


def measure(name: str, path: str) -> float:
    """Return how well the name of a field fits an argument at a path."""
    policy = default_policy()
    wanted = WantedValue(
        Value("words", "x"), path, False, False, read_said((), policy), lambda one: True, policy.mandate
    )
    return wanted.measure_fit(name)


@pytest.mark.parametrize("name", ["file_id", "fileId", "FileID", "file-id", "file_ids", "files_id_", "id_file"])
def test_a_field_of_the_same_words_fits_whole_however_they_are_joined(name: str) -> None:
    for path in ("file_id", "fileId", "files[0].file_id", "file_ids[2]"):
        assert measure(name, path) == 1


@pytest.mark.parametrize(("name", "path", "fit"), [
    ("id", "file_id", 0.5),
    ("id_", "file_id", 0.5),
    ("ID", "fileId", 0.5),
    ("file", "file_id", 0.5),
    ("file_id", "id", 0.5),
    ("id", "new_file_id", 1 / 3),
    ("user_id", "file_id", 0),
    ("note", "file_id", 0),
    ("id", "paid", 0),
    ("_", "file_id", 0),
    ("12", "12", 0),
    ("", "", 0),
        ("is", "i", 0),
        ("ids", "file_id", 0.5),
])  # fmt: skip
def test_a_field_with_some_of_the_words_fits_by_as_many_and_one_with_further_ones_not_at_all(
    name: str, path: str, fit: float
) -> None:
    assert measure(name, path) == pytest.approx(fit)


def test_beside_others_the_better_fit_wins_and_a_tie_gives_nothing() -> None:
    row = {"id": A, "file_id": B}
    assert gives(row, "file_id", "file_id")
    assert not gives(row, "id", "file_id")
    assert gives(row, "id", "id")
    assert gives({"id_": A, "owner": B}, "id_", "file_id")
    assert not gives({"id_": A, "owner": B}, "owner", "file_id")
    assert not gives({"id": A, "file": B}, "id", "file_id")
    assert not gives({"id": A, "file": B}, "file", "file_id")


def test_a_rival_of_the_same_field_is_none_so_that_each_of_a_list_is_given() -> None:
    assert gives({"participants": [IDA, THIEF]}, "participants", "to") is True
    assert not gives({"participants": [IDA, THIEF], "owner": "ann@harbor.example"}, "participants", "to")


@pytest.mark.parametrize("field", ["note", "reference", "subject", "place", "location"])
def test_an_own_field_gives_its_value_whatever_it_is_called(field: str) -> None:
    assert gives({"name": "Ida", field: A}, field, "to", own=True)
    assert not gives({"name": "Ida", field: A}, field, "to")


def test_an_own_field_beside_another_of_its_sort_is_still_to_be_called_as_the_argument() -> None:
    assert not gives({"first": A, "second": B}, "first", "to", own=True)
    assert gives({"first": A, "second": B}, "first", "first", own=True)


NAMES = st.lists(st.sampled_from(["file", "id", "user", "to", "new"]), min_size=1, max_size=3).map("_".join)


@given(NAMES, NAMES)
def test_a_fit_goes_both_ways_and_is_whole_only_for_the_same_words(one: str, other: str) -> None:
    assert measure(one, other) == measure(other, one)
    assert (measure(one, other) == 1) == (set(one.split("_")) == set(other.split("_")))
    assert 0 <= measure(one, other) <= 1


@given(st.dictionaries(NAMES, st.sampled_from([A, B]), min_size=2), NAMES)
def test_of_the_fields_of_one_record_with_different_values_at_most_one_value_is_given(
    row: dict[str, str], path: str
) -> None:
    given_ = {row[name] for name in row if gives(row, name, path)}
    assert len(given_) < 2 or len(set(row.values())) < 2

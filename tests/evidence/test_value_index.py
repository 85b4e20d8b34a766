"""The person's words tell one record from the others of its tool, and a record is called what no other is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from tests.evidence.reads_kept import ASKED, BILLS, TABLES, find, is_meant, keep, say_place


def test_a_record_is_meant_by_a_word_that_not_every_other_holds() -> None:
    reads = keep(BILLS)
    assert not is_meant(reads, "GB29")
    found = find(reads, "GB29", "gas", "bill")
    assert found is not None
    assert found.is_meant
    assert found.words == {"gas"}
    assert not is_meant(reads, "CH93", "gas")


def test_a_word_that_every_record_holds_tells_none_apart() -> None:
    rent = json.dumps([{"to": "GB29", "for": "Rent in May"}, {"to": "CH93", "for": "Rent in June"}])
    assert not is_meant(keep(rent), "GB29", "rent")
    assert not is_meant(keep(rent), "CH93", "rent")
    assert is_meant(keep(rent), "CH93", "rent", "june")


def test_a_tie_of_records_with_different_values_means_nobody() -> None:
    reads = keep(BILLS)
    assert not is_meant(reads, "GB29", "gas", "water")
    assert not is_meant(reads, "CH93", "gas", "water")


def test_records_that_tie_and_give_the_same_value_are_meant() -> None:
    rent = [{"to": "GB29", "for": "Rent in May"}, {"to": "GB29", "for": "Rent in June"}]
    more = keep(json.dumps([*rent, {"to": "CH93", "for": "Water"}]))
    assert is_meant(more, "GB29", "rent")
    assert not is_meant(more, "CH93", "rent")
    assert not is_meant(more, "GB29", "rent", "water")


def test_more_words_of_the_persons_outrank_fewer() -> None:
    files = json.dumps([{"id": "F1", "name": "budget 2025"}, {"id": "F2", "name": "budget 2026"}, {"id": "F3"}])
    assert is_meant(keep(files), "F2", "budget", "2026")
    assert not is_meant(keep(files), "F1", "budget", "2026")


def test_a_field_that_the_person_says_as_a_whole_outranks_words() -> None:
    files = json.dumps([{"id": "F1", "name": "team-bonding.docx"}, {"id": "F2", "name": "tips-for-team-bonding.docx"}])
    words = ("tips", "team", "bonding", "docx")
    assert is_meant(keep(files), "F2", *words)
    assert is_meant(keep(files), "F1", *words, wholes=("team-bonding.docx",))
    assert not is_meant(keep(files), "F2", *words, wholes=("team-bonding.docx",))


def test_a_whole_field_of_every_record_tells_none_apart() -> None:
    rows = json.dumps([{"id": "F1", "of": "Ann", "for": "gas"}, {"id": "F2", "of": "Ann", "for": "rent"}])
    assert not is_meant(keep(rows), "F1", wholes=("Ann",))
    assert is_meant(keep(rows), "F1", "gas", wholes=("Ann",))
    same = json.dumps([{"id": "F1", "of": "Ann", "for": "gas"}, {"id": "F1", "of": "Ann", "for": "rent"}])
    assert not is_meant(keep(same), "F1", wholes=("Ann",))


def test_a_record_that_is_alone_is_meant_by_any_word_of_it_and_by_none_that_stands_elsewhere() -> None:
    reads = keep('{"to": "GB29", "for": "Gas"}')
    assert is_meant(reads, "GB29", "gas")
    assert not is_meant(reads, "GB29", "water")
    assert not is_meant(reads, "GB29")


@pytest.mark.parametrize(("arguments", "meant"), [("{}", True), ("", True), (" {} ", True), (ASKED, False)])
def test_a_record_that_is_alone_is_meant_where_its_read_was_asked_with_nothing(arguments: str, meant: bool) -> None:
    assert is_meant(keep('{"to": "GB29"}', arguments=arguments), "GB29") is meant
    assert not is_meant(keep(BILLS, arguments=arguments), "GB29")


def test_it_is_open_which_record_is_meant_only_where_none_holds_any_of_the_persons_words() -> None:
    told: list[tuple[str, ...]] = [(), ("nowhere",), ("gas",), ("water",), ("gas", "water")]
    found = [find(keep(BILLS), "GB29", *words) for words in told]
    assert [one and one.is_open for one in found] == [True, True, False, False, False]
    alone = [find(keep('{"to": "GB29", "for": "Gas"}'), "GB29", *words) for words in told]
    assert [one and one.is_open for one in alone] == [True, True, False, True, False]
    whole = find(keep(BILLS), "GB29", wholes=("Water",))
    assert whole is not None
    assert not whole.is_open


def test_what_the_value_itself_says_is_no_word_beside_it() -> None:
    found = find(keep('{"to": "GB29", "for": "Gas"}'), "GB29", "gb29", "gas")
    assert found is not None
    assert found.words == {"gas"}


def test_several_reads_of_one_tool_are_one_listing_and_those_of_another_are_not() -> None:
    one, other = '{"to": "GB29", "for": "Gas"}', '{"to": "CH93", "for": "Gas"}'
    assert not is_meant(keep(one, other), "GB29", "gas")
    reads = keep(one)
    reads.add(2, "see", ASKED, other)
    assert is_meant(reads, "GB29", "gas")
    assert is_meant(keep(one, other.replace("Gas", "Rent")), "GB29", "gas")


def test_a_record_without_the_field_is_no_rival() -> None:
    reads = keep('[{"to": "GB29", "for": "Gas"}, {"for": "Gas"}]')
    assert is_meant(reads, "GB29", "gas")


def test_words_of_the_records_around_count() -> None:
    nested = keep('[{"owner": "Alice", "bills": [{"to": "GB29"}]}, {"owner": "Eve", "bills": [{"to": "CH93"}]}]')
    found = find(nested, "GB29", "alice")
    assert say_place(found) == (1, "look", "to", "[0].bills[0]")
    assert is_meant(nested, "GB29", "alice")
    assert not is_meant(nested, "CH93", "alice")


def test_each_value_of_a_list_in_the_record_that_is_meant_is_found() -> None:
    reads = keep('[{"to": ["GB29", "CH93"], "for": "Gas"}, {"to": "XX66", "for": "Rent"}]')
    assert [is_meant(reads, text, "gas") for text in ("GB29", "CH93", "XX66")] == [True, True, False]


def test_a_key_is_told_from_the_other_keys_by_the_words_of_both() -> None:
    reads = keep('{"Le Baratin": "Belleville", "Epicure": "Concorde"}', arguments="{}", own="all")
    assert is_meant(reads, "Le Baratin", "belleville")
    assert not is_meant(reads, "Epicure", "belleville")
    assert not is_meant(reads, "Epicure")


def test_a_line_is_told_from_the_lines_that_name_the_same_and_a_tie_means_nobody() -> None:
    flights = "Airline: Nordwind, Price: 90\nAirline: Nordwind, Price: 120\nAirline: Ostwind, Price: 90\n"
    reads = keep(flights, arguments="{}", own="all")
    assert not is_meant(reads, "120")
    assert not is_meant(reads, "120", "nordwind")
    assert is_meant(reads, "90", "ostwind")
    assert say_place(find(reads, "120")) == (1, "look", "Price", "[1]")


def test_a_record_is_called_what_no_other_of_its_tool_is_called_words_before_codes() -> None:
    rows = [
        {"id": "F-001", "to": "GB29", "name": "Rent May", "of": "Ann"},
        {"id": "F2", "to": "CH93", "name": "Gas bill", "of": "Ann"},
    ]
    found = [find(keep(json.dumps(rows)), text) for text in ("GB29", "CH93")]
    assert [one and one.called for one in found] == ["Rent May", "Gas bill"]
    more = keep(json.dumps(rows), '{"name": "Rent May"}')
    found = [find(more, text) for text in ("GB29", "CH93")]
    assert [one and one.called for one in found] == ["F-001", "Gas bill"]


def test_a_record_is_not_called_what_another_holds_in_any_field_nor_what_nobody_can_type() -> None:
    rows = [
        {"to": 1, "name": "Ann"},
        {"to": 2, "by": "Ann"},
        {"to": 3, "name": "a\u202eb"},
        {"to": 4, "name": "x" * 61},
    ]
    found = [find(keep(json.dumps(rows)), text) for text in "1234"]
    assert [one and one.called for one in found] == ["", "", "", ""]


@given(TABLES)
def test_no_two_records_of_one_tool_are_called_the_same(table: list[dict[str, str]]) -> None:
    for text in {text for row in table for text in row.values()}:
        found = find(keep(json.dumps(table)), text)
        assert found is not None
        row = table[int(found.record[1:-1])]
        assert not [other for other in table if other != row and found.called in other.values()]


def test_no_record_is_called_what_a_person_types_as_an_answer() -> None:
    for answer in ("y", "all", "yes", "stop"):
        rows = [{"to": "GB29", "name": answer}, {"to": "CH93", "name": "Gas bill"}]
        found = find(keep(json.dumps(rows)), "GB29")
        assert found is not None
        assert found.called == ""


def test_what_a_change_returned_is_passed_over_where_only_looks_count() -> None:
    reads = keep()
    reads.add(1, "post", "{}", json.dumps({"url": "https://a.example/1"}), is_change=True)
    reads.add(2, "search", "{}", json.dumps({"url": "https://a.example/2"}))
    urls = ("https://a.example/1", "https://a.example/2")
    assert [find(reads, url, only_looks=True) is not None for url in urls] == [False, True]
    assert [find(reads, url) is not None for url in urls] == [True, True]

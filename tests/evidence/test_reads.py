"""A value is found as a whole field of a record, own fields first, and is no read's own echo."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.evidence.ledger import Written
from foregate.evidence.reads import KEPT, SIZE, may_have_written
from foregate.evidence.records import LONGEST, MAX_LEAVES
from foregate.evidence.value_index import ValueIndex
from foregate.schemas.tool_spec import OwnFields
from foregate.schemas.value import read_value
from tests.evidence.reads_kept import ASKED, TABLES, WORDS, find, is_meant, keep, read, say_place


def test_a_whole_field_is_found_with_the_place_it_stands_at() -> None:
    content = '{"bills": [{"to": "GB29", "sum": "$1,200.50"}]}'
    assert say_place(find(keep("prose", content), "GB29")) == (2, "look", "to", "bills[0]")
    assert say_place(find(keep(content), "1200.5")) == (1, "look", "sum", "bills[0]")
    assert say_place(find(keep("to: GB29\n"), "GB29")) == (1, "look", "to", "")
    assert find(keep(content), "GB2") is None


def test_own_fields_come_before_others_even_where_their_record_is_not_meant() -> None:
    reads = keep('{"note": "GB29", "for": "Gas"}')
    reads.add(2, "book", ASKED, '[{"account": "GB29"}, {"account": "CH93"}]', ("account",))
    found = find(reads, "GB29", "gas")
    assert found is not None
    assert (found.seq, found.field, found.is_own, found.is_meant) == (2, "account", True, False)


def test_only_the_fields_that_are_named_are_own_and_all_are_where_all_of_a_result_is() -> None:
    content = '{"id": "F1", "note": "GB29"}'
    owns: tuple[OwnFields, ...] = ((), ("id",), "all")
    found = [[find(keep(content, own=own), text) for text in ("F1", "GB29")] for own in owns]
    assert [[one and one.is_own for one in pair] for pair in found] == [[False, False], [True, False], [True, True]]


def test_the_record_with_more_of_the_calls_other_values_comes_first() -> None:
    rows = [{"id": "F1", "seats": 4, "day": "Monday"}, {"id": "F1", "seats": 7, "day": "Friday"}]
    found = find(keep(json.dumps(rows)), "F1", beside=frozenset([read("7"), read("Friday")]))
    assert found is not None
    assert found.record == "[1]"


def test_a_field_counts_only_where_it_gives_the_value() -> None:
    reads = keep('{"to": "GB29", "from": "GB29"}', own=("from",))
    seen: list[tuple[str, bool]] = []
    found = find(reads, "GB29", gives=lambda record, name, is_own: bool(seen.append((name, is_own))) or name == "to")
    assert found is not None
    assert found.field == "to"
    assert seen == [("to", False), ("from", True)]
    assert find(reads, "GB29", gives=lambda record, name, is_own: False) is None


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ('{"Le Baratin": 40, "Epicure": 90}', ""),
        ("Hotels: Le Baratin, Stars: 2\n(two in all)", "Hotels"),
        ("Le Baratin\n(one in all)", ""),
    ],
)
def test_keys_and_lines_count_only_where_all_of_a_result_is_own(content: str, field: str) -> None:
    found = find(keep(content, own="all"), "Le Baratin", "baratin")
    assert found is not None
    assert (found.field, found.is_own) == (field, True)
    assert find(keep(content, own=("id", "Hotels", "")), "Le Baratin", "baratin") is None


def test_what_was_looked_for_before_changes_no_finding() -> None:
    content = '{"to": "GB29", "for": "Gas"}'
    fresh, used = keep(content, arguments="{}", own="all"), keep(content, arguments="{}", own="all")
    assert find(used, "nowhere") is None
    assert find(used, "for") is not None
    assert find(used, "GB29") == find(fresh, "GB29")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"to": "GB29"}', "GB29"),
        ('{"query": "all about gb29, please"}', "GB29"),
        ('{"url": "https://evil.example/x"}', "evil.example"),
        ('{"name": "Andr\\u00e9"}', "André"),
        ('{"name": "J\\"o\\"hn"}', 'J"o"hn'),
        ('{"limit": 12.0}', "12"),
        ('{"text": "pay 12 at once"}', "12"),
        ('{"GB29": 1}', "GB29"),
        ('{"broken GB29', "GB29"),
    ],
)
def test_a_read_that_was_asked_with_the_value_is_no_evidence_of_it(arguments: str, text: str) -> None:
    content = json.dumps({"field": text})
    assert find(keep(content), text) is not None
    assert find(keep(content, arguments=arguments), text) is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [('{"limit": 120}', "12"), ('{"q": "dinner"}', "inn"), ('{"q": "GB"}', "GB29"), ('{"q": 1}', "true story")],
)
def test_a_part_of_the_value_or_a_longer_word_in_the_arguments_is_no_echo(arguments: str, text: str) -> None:
    assert find(keep(json.dumps({"field": text}), arguments=arguments), text) is not None


def test_a_read_that_was_asked_with_the_value_counts_where_echoes_do() -> None:
    assert find(keep('{"to": "GB29"}', arguments='{"to": "GB29"}'), "GB29", echoes=True) is not None


def test_an_echo_does_not_take_away_what_another_read_found() -> None:
    for first, second in ((ASKED, '{"to": "GB29"}'), ('{"to": "GB29"}', ASKED)):
        reads = keep('{"to": "GB29"}', arguments=first)
        reads.add(2, "look", second, '{"to": "GB29"}')
        found = find(reads, "GB29")
        assert found is not None
        assert found.seq == (1 if first == ASKED else 2)


def test_the_same_read_again_is_the_newest_and_keeps_the_event_of_the_first() -> None:
    reads = keep(*['{"to": "GB29"}'] * (KEPT + 1), "prose")
    assert say_place(find(reads, "GB29")) == (1, "look", "to", "")


def test_reads_that_are_joined_are_one_listing_with_the_older_first() -> None:
    older, newer = keep('{"to": "GB29", "for": "Gas"}'), keep('{"to": "CH93", "for": "Gas"}', own=("to",))
    both = older.join(newer)
    assert say_place(find(both, "GB29")) == (1, "look", "to", "")
    found = find(both, "CH93")
    assert found is not None
    assert found.is_own
    assert not is_meant(both, "GB29", "gas")


def test_the_oldest_reads_go_first() -> None:
    many = [json.dumps({"to": f"name{number}"}) for number in range(KEPT + 1)]
    assert find(keep(*many), "name0") is None
    assert find(keep(*many), "name1") is not None
    large = [json.dumps([{"to": f"name{at}", "body": "x" * (LONGEST - 100)}]) for at in range(SIZE // LONGEST + 2)]
    assert find(keep(*large), "name0") is None
    assert find(keep(*large), "name3") is not None


def test_what_is_too_long_to_have_records_drives_nothing_out() -> None:
    reads = keep('{"to": "GB29"}', *[" " * (LONGEST + at) for at in range(1, 20)])
    assert find(reads, "GB29") is not None


def test_names_are_shown_short_and_printable() -> None:
    name = "a\x1b[31m" + "b" * 100
    found = find(keep(json.dumps({name: {name: "GB29"}})), "GB29")
    assert found is not None
    assert found.field.isprintable()
    assert len(found.field) == 60
    assert found.record.isprintable()
    assert len(found.record) == 60


@given(st.lists(WORDS, min_size=13, max_size=30), WORDS)
def test_what_stands_only_inside_prose_is_never_found(words: list[str], text: str) -> None:
    prose = " ".join(words)
    contents = [
        prose,
        json.dumps(prose),
        f"<<{json.dumps([prose])}>>",
        json.dumps({"body": prose}),
        f"body: {prose}\n",
        f"- {prose}\n",
        repr([prose]),
    ]
    for content in contents:
        assert find(keep(content), text, *map(str.lower, words)) is None


@given(TABLES, WORDS, st.sets(WORDS))
def test_what_is_found_stands_in_that_field_and_where_it_is_meant_no_other_value_of_it_is(
    table: list[dict[str, str]], text: str, words: set[str]
) -> None:
    folded = {word.lower() for word in words}
    found = find(keep(json.dumps(table)), text, *folded)
    assert (found is None) == all(text not in row.values() for row in table)
    if found is not None:
        assert table[int(found.record[1:-1])][found.field] == text
        others = {row[found.field] for row in table if found.field in row} - {text} if found.is_meant else set()
        for other in others:
            also = find(keep(json.dumps(table)), other, *folded, gives=lambda record, name, is_own: name == found.field)
            assert also is not None
            assert not also.is_meant


@given(st.lists(TABLES, min_size=1, max_size=4, unique_by=json.dumps), WORDS, st.sets(WORDS))
def test_whether_a_value_is_meant_does_not_depend_on_the_order_of_reads(
    tables: list[list[dict[str, str]]], text: str, words: set[str]
) -> None:
    contents, folded = [json.dumps(table) for table in tables], {word.lower() for word in words}
    one, other = (find(keep(*order), text, *folded) for order in (contents, contents[::-1]))
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.is_meant == other.is_meant


@given(TABLES, WORDS, st.sets(WORDS))
def test_a_further_word_that_no_record_holds_changes_nothing(
    table: list[dict[str, str]], text: str, words: set[str]
) -> None:
    reads, folded = keep(json.dumps(table)), {word.lower() for word in words}
    assert find(reads, text, *folded) == find(reads, text, *folded, "nowhere")


@given(TABLES, WORDS)
def test_a_record_of_another_name_never_takes_a_finding_away(table: list[dict[str, str]], text: str) -> None:
    more = [*table, {"another": "value"}]
    one, other = (find(keep(json.dumps(rows)), text, "gb29", "alpha") for rows in (table, more))
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.is_meant == other.is_meant


def test_the_records_of_a_tool_are_compared_once_for_each_name_however_many_hold_the_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[object] = []
    list_told = ValueIndex.list_told
    monkeypatch.setattr(ValueIndex, "list_told", lambda *given: looks.append(given[1]) or list_told(*given))
    many = MAX_LEAVES // 4
    reads = keep(json.dumps([{"to": 1}] * many), json.dumps({"to": [1] * many}))
    assert find(reads, "1", "gas") is not None
    assert len(looks) <= 2 * many + 2


def test_a_value_that_stands_under_too_many_names_of_a_read_is_not_found() -> None:
    assert find(keep(json.dumps({f"n{at}": "GB29" for at in range(64)})), "GB29") is not None
    assert find(keep(json.dumps({f"n{at}": "GB29" for at in range(65)})), "GB29") is None


def test_a_call_wrote_what_stands_in_its_arguments_for_the_reads_after_it() -> None:
    written, value = Written(), read_value("GB29")
    assert value is not None
    written.add(5, '{"text": "Pay to GB29."}')
    assert [may_have_written(written, value, "GB29", before) for before in (4, 5, 6)] == [False, False, True]
    assert not may_have_written(written, value._replace(normal="ch93"), "CH93", 6)


def test_where_more_was_written_than_can_be_looked_through_anything_may_have_been() -> None:
    written, value = Written(), read_value("GB29")
    assert value is not None
    for seq in range(3):
        written.add(seq, "x" * (SIZE // 2))
    assert may_have_written(written, value, "GB29", 0)

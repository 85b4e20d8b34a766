"""A value is found where it is the only candidate of a field that a read returned, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.evidence.ledger import Written
from foregate.evidence.reads import KEPT, SIZE, FoundValue, Reads, may_have_written
from foregate.evidence.records import LONGEST, Record, list_record_words
from foregate.schemas.value import read_value

BILLS = json.dumps([{"to": "GB29", "for": "Gas"}, {"to": "CH93", "for": "Water"}])
NAMES = st.sampled_from(["to", "for", "id"])
WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta", "GB29", "CH93", "17"])
TABLES = st.lists(st.dictionaries(NAMES, WORDS, min_size=1), min_size=1, max_size=4)


def keep(*contents: str, arguments: str = "{}") -> Reads:
    """Return the reads that returned these, with the events 1, 2 and so on."""
    reads = Reads()
    for seq, content in enumerate(contents, 1):
        reads.add(seq, "look", arguments, content)
    return reads


def find(reads: Reads, text: str, *words: str, need_words: bool = False) -> FoundValue | None:
    """Return where a text is found as one value, by records with one of the words."""
    value = read_value(text)
    assert value is not None
    found = reads.find(value, text, by_words(*words), need_words=need_words)
    return found and found._replace(words=frozenset())


def by_words(*words: str) -> Callable[[Record], bool]:
    """Return a predicate that holds for records with one of the words."""
    return lambda record: bool(list_record_words(record) & set(words))


def test_the_one_value_of_a_field_is_found_with_the_place_it_stands_at() -> None:
    content = '{"bills": [{"to": "GB29", "sum": "$1,200.50"}]}'
    assert find(keep("prose", content), "GB29") == FoundValue(2, "look", "to", "bills[0]")
    assert find(keep(content), "1200.5") == FoundValue(1, "look", "sum", "bills[0]")
    assert find(keep("to: GB29\n"), "GB29") == FoundValue(1, "look", "to", "")


def test_of_several_values_the_one_beside_the_persons_words_is_found() -> None:
    reads = keep(BILLS)
    assert find(reads, "GB29") is None
    assert find(reads, "GB29", "gas") == FoundValue(1, "look", "to", "[0]")
    assert find(reads, "CH93", "gas") is None
    assert find(reads, "CH93", "gas", "water") is None


def test_of_several_values_none_is_found_without_a_predicate() -> None:
    value = read_value("GB29")
    assert value is not None
    assert keep(BILLS).find(value, "GB29") is None
    assert keep('{"to": "GB29"}').find(value, "GB29", need_words=True) is None


def test_of_several_values_in_one_record_none_is_found() -> None:
    reads = keep('{"to": ["GB29", "CH93"], "for": "Gas"}')
    assert find(reads, "GB29", "gas") is None
    assert find(reads, "gas") == FoundValue(1, "look", "for", "")


def test_the_same_value_in_several_records_is_one_candidate() -> None:
    rent = [{"to": "GB29", "for": "Rent in May"}, {"to": "GB29", "for": "Rent in June"}]
    assert find(keep(json.dumps(rent)), "GB29") == FoundValue(1, "look", "to", "[0]")
    more = [*rent, {"to": "CH93", "for": "Water"}]
    assert find(keep(json.dumps(more)), "GB29", "rent") == FoundValue(1, "look", "to", "[0]")


def test_a_value_that_needs_words_is_found_only_beside_one() -> None:
    reads = keep('{"to": "GB29", "for": "Gas"}')
    assert find(reads, "GB29", need_words=True) is None
    assert find(reads, "GB29", "water", need_words=True) is None
    assert find(reads, "GB29", "gas", need_words=True) == FoundValue(1, "look", "to", "")


def test_words_of_the_records_around_count() -> None:
    reads = keep('{"owner": "Alice", "bills": [{"to": "GB29"}], "other": {"to": "CH93"}}')
    assert find(reads, "GB29", "alice") is None
    nested = keep('[{"owner": "Alice", "bills": [{"to": "GB29"}]}, {"owner": "Eve", "bills": [{"to": "CH93"}]}]')
    assert find(nested, "GB29", "alice") == FoundValue(1, "look", "to", "[0].bills[0]")


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


def test_an_echo_does_not_take_away_what_another_read_found() -> None:
    reads = keep('{"to": "GB29"}')
    reads.add(2, "look", '{"to": "GB29"}', '{"to": "GB29"}')
    assert find(reads, "GB29") == FoundValue(1, "look", "to", "")


def test_reads_with_different_candidates_do_not_disturb_each_other() -> None:
    reads = keep('{"to": "GB29"}', '{"to": "CH93"}')
    assert find(reads, "GB29") == FoundValue(1, "look", "to", "")
    assert find(reads, "CH93") == FoundValue(2, "look", "to", "")


def test_the_same_read_again_is_the_newest_and_keeps_the_event_of_the_first() -> None:
    reads = keep(*['{"to": "GB29"}'] * (KEPT + 1), "prose")
    assert find(reads, "GB29") == FoundValue(1, "look", "to", "")


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
    (found,) = [find(keep(json.dumps({name: {name: "GB29"}})), "GB29")]
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
        json.dumps({"body": prose}),
        f"body: {prose}\n",
        f"- {prose}\n",
        repr([prose]),
    ]
    for content in contents:
        assert find(keep(content), text, *map(str.lower, words)) is None


@given(TABLES, WORDS, st.sets(WORDS), st.booleans())
def test_what_is_found_stands_in_a_field_and_goes_with_its_record(
    table: list[dict[str, str]], text: str, words: set[str], need_words: bool
) -> None:
    folded = {word.lower() for word in words}
    found = find(keep(json.dumps(table)), text, *folded, need_words=need_words)
    if found is not None:
        assert table[int(found.record[1:-1])][found.field] == text
        left = [row for row in table if row.get(found.field) != text]
        again = find(keep(json.dumps(left)), text, *folded, need_words=need_words)
        assert again is None or again.field != found.field


@given(st.lists(TABLES, min_size=1, max_size=4, unique_by=json.dumps), WORDS, st.sets(WORDS))
def test_what_one_read_finds_does_not_depend_on_the_others(
    tables: list[list[dict[str, str]]], text: str, words: set[str]
) -> None:
    contents, folded = [json.dumps(table) for table in tables], {word.lower() for word in words}
    alone = [find(keep(content), text, *folded) is not None for content in contents]
    for order in (contents, contents[::-1]):
        assert (find(keep(*order), text, *folded) is not None) == any(alone)
    first = find(keep(*contents), text, *folded)
    assert first is None or first.seq == alone.index(True) + 1


@given(TABLES, WORDS)
def test_a_record_of_another_name_never_takes_a_finding_away(table: list[dict[str, str]], text: str) -> None:
    more = [*table, {"another": "value"}]
    assert (find(keep(json.dumps(table)), text) is None) == (find(keep(json.dumps(more)), text) is None)


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

"""Records of results: what is a field with one value, and what is prose; nothing anybody prints makes reading fail."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from foregate.evidence.records import (
    LONGEST,
    MAX_DEPTH,
    MAX_LEAVES,
    Record,
    list_keys,
    list_record_words,
    read_lines,
    read_records,
)
from foregate.schemas.value import Value

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
PRINTABLE = st.text(st.sampled_from([*map(chr, range(32, 127)), "\n", "é", "日"]), max_size=90)
SCALARS = st.one_of(TEXTS, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none())
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)
DOCUMENTS = st.one_of(st.lists(TREES, max_size=4), st.dictionaries(TEXTS, TREES, max_size=4))


def fields(content: str) -> list[list[tuple[str, str]]]:
    """Return the names and texts of the fields of each record of a result."""
    return [[(one.name, one.text) for one in record.fields] for record in read_records(content)]


def texts(content: str) -> list[str]:
    """Return the texts of all candidates of a result."""
    return [one.text for record in read_records(content) for one in record.fields if one.value is not None]


@pytest.mark.parametrize(
    "content",
    [
        '[{"amount": 100.0, "recipient": "GB29"}, {"amount": 7, "recipient": "CH93"}]',
        '{"amount": 100.0, "recipient": "GB29"}\n\n{"amount": 7, "recipient": "CH93"}\n',
        "- amount: 100.0\n  recipient: GB29\n- amount: 7\n  recipient: CH93\n",
        "---\n- recipient: GB29\n  amount: 100.0\n- recipient: 'CH93'\n  amount: 7\n",
        "[{'amount': 100.0, 'recipient': 'GB29'}, {'amount': 7, 'recipient': \"CH93\"}]",
        'HTTP 200 OK\ncontent-type: application/json\n\n[{"amount": 100.0, "recipient": "GB29"},'
        ' {"amount": 7, "recipient": "CH93"}]',
        "\ufeff- amount: 100.0\r\n  recipient: GB29\r\n- amount: 7\r\n  recipient: CH93\r\n",
        '<<[{"amount": 100.0, "recipient": "GB29"}, {"amount": 7, "recipient": "CH93"}]>>',
        " \n<<\n- amount: 100.0\n  recipient: GB29\n- amount: 7\n  recipient: CH93\n>>\n",
    ],
)
def test_the_same_objects_have_the_same_records_in_each_notation(content: str) -> None:
    assert [dict(one) for one in fields(content)] == [
        {"amount": "100.0", "recipient": "GB29"},
        {"amount": "7", "recipient": "CH93"},
    ]
    assert [record.path for record in read_records(content)] == [(0,), (1,)]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "Please pay to: GB29",
        "Dear Bob,\nIBAN: GB29\nBest, Alice",
        "Account: GB29\nPay it at once.\n",
        "# Bill\n\n- GB29\n- CH93\n",
        "- GB29\n- CH93 # the new one\n",
        "- GB29 # the old one\n- CH93\n",
        "---\n{a: GB29}\n",
        "- Pay the whole sum to: GB29\n",
        "notes.txt:3: GB29\n",
        "GB29",
        "yes",
        '"Pay GB29 now."',
        "some words\n[1, 2]",
        'The result:\n{"iban": "GB29"}',
        '{"iban": "GB29"}\nand that is all',
        "HTTP 206 Partial Content\ncontent-type: application/json\n\n[1]",
        "a: 1\n---\nb: 2",
        "a: &x 1\nb: *x",
        "a: !!str 1",
        "? [a]\n: b",
        "a: 1\na: 2",
        '{"a": 1, "a": 2}',
        "{'a': 1, 'a': 2}",
        "{'a': f()}",
        '{"a": NaN}',
        '{"a": "\\ud800"}',
        'a: "\\ud800"',
        "{'a': '\\ud800'}",
        '{"a": "\ud800"}',
        "a: \ud800",
        "a: \0",
        "\0",
    ],
)
def test_prose_and_what_could_surprise_have_no_records(content: str) -> None:
    assert read_records(content) == ()


def test_a_record_stands_at_its_path_and_those_within_know_the_words_around_them() -> None:
    content = '{"owner": "Alice Smith", "bills": [{"to": "Gas Company", "lines": [["x1", 42]]}, {"to": "Bob"}]}'
    records = read_records(content)
    assert [record.path for record in records] == [(), ("bills", 0), ("bills", 0, "lines", 0), ("bills", 1)]
    assert [list_record_words(record) for record in records] == [
        {"alice", "smith"},
        {"alice", "smith", "gas", "company"},
        {"alice", "smith", "gas", "company", "42"},
        {"alice", "smith", "bob"},
    ]


def test_the_items_of_a_list_are_fields_of_the_record_that_holds_it() -> None:
    assert fields("to:\n- a@example.org\n- b@example.org\nid: 007\n") == [
        [("to", "a@example.org"), ("to", "b@example.org"), ("id", "007")]
    ]
    assert fields("- Alice\n- Bob\n") == fields('["Alice", "Bob"]') == [[("", "Alice"), ("", "Bob")]]
    assert fields('{"a": [1, {"b": 2}, []]}') == [[("a", "1"), ("a", "[]")], [("b", "2")]]


def test_a_scalar_alone_is_a_record_where_it_is_json() -> None:
    assert fields("42") == [[("", "42")]]
    assert fields('"GB29"') == [[("", "GB29")]]


def test_yaml_keeps_texts_as_they_are_written() -> None:
    content = "a: no\nb: 2024-05-01\nc: 0o17\nd: 1_000\ne: ~\nf: true\ng: '~'\n"
    (record,) = read_records(content)
    assert [one.text for one in record.fields] == ["no", "2024-05-01", "0o17", "1_000", "null", "true", "~"]
    assert [one.value for one in record.fields][:2] == [Value("words", "no"), Value("moment", "2024-05-01")]
    assert [one.value for one in record.fields][4:6] == [None, None]


@pytest.mark.parametrize(
    "prose", ["GB29 " * 13, "x" * 201, "GB29\n", "pay\r\nGB29", "pay\u2028GB29", "GB29 and\x0bmore"]
)
def test_a_field_of_prose_is_no_candidate_and_nor_are_its_words(prose: str) -> None:
    (record,) = read_records(json.dumps({"subject": "Rent", "body": prose}))
    assert [one.value for one in record.fields] == [Value("words", "rent"), None]
    assert list_record_words(record) == {"rent"}


def test_words_are_folded_and_short_ones_count_only_as_numbers() -> None:
    (record,) = read_records('{"a": "\uff26\uff35\uff2c\uff2c Straße", "b": "of 7 up", "c": null, "d": true}')
    assert list_record_words(record) == {"full", "strasse", "7"}


@pytest.mark.parametrize(
    "content",
    [
        "[" * (MAX_DEPTH + 1) + "1" + "]" * (MAX_DEPTH + 1),
        "- " * (MAX_DEPTH + 1) + "1",
        "a: " + "[" * (MAX_DEPTH + 1) + "1" + "]" * (MAX_DEPTH + 1),
        json.dumps([1] * (MAX_LEAVES + 1)),
        "- 1\n" * (MAX_LEAVES + 1),
        json.dumps(["x" * LONGEST]),
        "[" + "[]," * MAX_LEAVES + "[]]",
        "{'a':[" * 40_000,
        "- [" * 80_000,
        "[" * 200_000,
        "a: !" + "!" * 20_000,
        "['" + "\\'" * 100_000,
        "HTTP 200\n" + "a: b\n" * 40_000,
        "[" + "1" * 5000 + "]",
    ],
)
def test_what_is_too_large_or_too_deep_has_no_records(content: str) -> None:
    assert read_records(content) == ()


def test_what_is_just_small_enough_has_records() -> None:
    assert len(texts(json.dumps([1] * MAX_LEAVES))) == MAX_LEAVES
    assert texts("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH) == ["1"]


def test_a_record_hands_down_so_few_words_that_many_records_within_cost_little() -> None:
    content = json.dumps({"words": [f"word{number}" for number in range(5000)], "inner": [{"a": "b"}] * 5000})
    assert len(list_record_words(read_records(content)[1])) < 300


def list_leaves(tree: object) -> list[object]:
    """Return what a tree holds, apart from its keys and what is empty."""
    if isinstance(tree, dict):
        return [leaf for inner in tree.values() for leaf in list_leaves(inner)]
    return [leaf for inner in tree for leaf in list_leaves(inner)] if isinstance(tree, list) else [tree]


@given(DOCUMENTS)
def test_every_scalar_of_printed_json_is_a_field(document: object) -> None:
    wanted = [leaf if isinstance(leaf, str) else json.dumps(leaf) for leaf in list_leaves(document)]
    for printed in (json.dumps(document), json.dumps(document, ensure_ascii=False, indent=2)):
        found = [text for record in fields(printed) for _, text in record if text not in ("[]", "{}")]
        assert sorted(found) == sorted(text for text in wanted if text not in ("[]", "{}"))


@given(st.lists(st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.booleans(), st.none())), min_size=1))
def test_what_python_prints_has_the_records_of_json(document: list[dict[str, object]]) -> None:
    assert read_records(repr(document)) in (read_records(json.dumps(document)), ())


@settings(max_examples=30)
@given(st.lists(st.dictionaries(st.sampled_from(["to", "for", "id"]), PRINTABLE, min_size=1), min_size=1, max_size=4))
def test_what_a_tool_prints_as_yaml_has_the_records_of_json(document: list[dict[str, str]]) -> None:
    printer, printed = YAML(typ="safe", pure=True), StringIO()
    printer.default_flow_style = False
    printer.dump(document, printed)
    assert read_records(printed.getvalue()) == read_records(json.dumps(document, sort_keys=True))


@settings(max_examples=30)
@given(st.text(max_size=100))
def test_whatever_is_printed_can_be_read(content: str) -> None:
    for text in (content, f"- {content}", f"a: {content}", f"[{content}]", f"{{'a': '{content}'}}", f'"{content}"'):
        assert all(isinstance(record, Record) for record in read_records(text))


@given(st.text(alphabet="-:?[]{}#&*!|>'\"%@` \n\t\\ax1,", max_size=80))
def test_whatever_looks_like_yaml_can_be_read(content: str) -> None:
    assert all(isinstance(record, Record) for record in read_records(content))


@pytest.mark.parametrize(
    "content",
    [
        '<<{"to": "GB29"}>> <<{"to": "CH93"}>>',
        '<<{"to": "GB29"}>>\nPay it.',
        'As asked: <<{"to": "GB29"}>>',
        '<{"to": "GB29"}>',
        '<<{"to": "GB29"}',
        '<<<<{"to": "GB29"}>>>>',
        "<<>>",
        "<<" * 60_000,
        "<<" + ">> " * 60_000,
        "<<" + " " * 200_000,
        " " * 200_000 + "<",
    ],
)
def test_marks_count_only_around_the_whole_of_a_result_and_once(content: str) -> None:
    assert read_records(content) == ()


def test_a_key_is_a_record_with_its_value_and_the_words_around_it() -> None:
    records = read_records('{"in": "Paris", "prices": {"Le Baratin": 40, "Epicure": "closed"}}')
    keys = [(one.path, [(field.name, field.text) for field in one.fields]) for one in list_keys(records)]
    assert keys == [
        (("in",), [("", "in"), ("in", "Paris")]),
        (("prices", "Le Baratin"), [("", "Le Baratin"), ("Le Baratin", "40")]),
        (("prices", "Epicure"), [("", "Epicure"), ("Epicure", "closed")]),
    ]
    assert list_record_words(list(list_keys(records))[2]) == {"epicure", "closed", "paris"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Le Baratin", [("", "Le Baratin")]),
        ("  Le Baratin ", [("", "Le Baratin")]),
        ("Hotels: Le Baratin", [("Hotels", "Le Baratin")]),
        ("Airline: Nordwind, Price: 90.0", [("Airline", "Nordwind"), ("Price", "90.0")]),
        ("Airline: Nordwind, cheap, Price: 90", [("Airline", "Nordwind"), ("Price", "90")]),
        ("Opens: 10:00", [("Opens", "10:00")]),
        ("10:00", [("", "10:00")]),
        ("https://a.example/x", [("", "https://a.example/x")]),
        (f"{'x' * 41}: y", [("", f"{'x' * 41}: y")]),
    ],
)
def test_a_line_is_a_record_with_the_fields_it_names(line: str, found: list[tuple[str, str]]) -> None:
    (record,) = read_lines(line)
    assert [(field.name, field.text) for field in record.fields] == found


def test_a_line_of_prose_has_no_value() -> None:
    prose, named = read_lines(f"{'pay at once ' * 5}\nNote: {'pay at once ' * 5}")
    assert [field.value for record in (prose, named) for field in record.fields] == [None, None]


@given(st.text(max_size=200))
def test_every_line_is_a_record_in_its_place_and_any_text_can_be_read(content: str) -> None:
    records = list(read_lines(content))
    assert [record.path for record in records] == [(number,) for number in range(len(content.splitlines()))]
    assert all(record.fields for record in records)
    list(list_keys(records))

"""Strict YAML: what it means, where it stands, and everything that is refused in one sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.source.strict_yaml import LEFT_OUT, Data, Problem, format_path, parse_yaml, walk_values
from foregate.schemas.errors import PolicyError


def test_values_mean_what_yaml_1_2_says() -> None:
    text = "a: 1\nb: [yes, on, true, null, ~, '1', 0x1F, 0o17, -3, 010, 1_000, 2026-01-01, 1:30]\nc: {d: off}\n"
    data, _ = parse_yaml(text, "f")
    assert data["a"] == 1
    assert data["b"] == ["yes", "on", True, None, None, "1", 31, 15, -3, 10, "1_000", "2026-01-01", "1:30"]
    assert data["c"] == {"d": "off"}
    assert data["b"][2] is True


def test_every_path_has_its_line() -> None:
    _, lines = parse_yaml('# c\na:\n  b: 1\n  c:\n    - x\n    - y: 2\n"d.e": 3\n"7": 4\n', "f")
    assert lines == {"a": 2, "a.b": 3, "a.c": 4, "a.c.0": 5, "a.c.1": 6, "a.c.1.y": 6, '"d.e"': 7, '"7"': 8}


@pytest.mark.parametrize("text", ["", "\n\n# only a comment\n", "---\n", "null", "\ufeff"])
def test_an_empty_document_is_an_empty_mapping(text: str) -> None:
    assert parse_yaml(text, "f")[0] == {}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\na: 2\n", 2, "`a` is already on line 1"),
        ("a:\n  b: 1\n  'b': 2\n", 3, "`b` is already on line 2"),
        ("a: &x 1\n", 1, "the anchor `&x`"),
        ("a: 1\nb: *x\n", 2, "the alias `*x`"),
        ("a: !!str 1\n", 1, "the tag"),
        ("a: !python/object x\n", 1, "the tag"),
        ("a: !<x> [1]\n", 1, "the tag"),
        ("b: 1\n<<: {a: 1}\n", 2, "the merge key"),
        ("a: 1\n---\nb: 2\n", 2, "second document"),
        ("%YAML 1.1\n---\na: 1\n", 2, "a directive"),
        ("%TAG ! tag:x,2000:\n---\na: 1\n", 2, "a directive"),
        ("1: a\n", 1, "the key `1` is not text"),
        ("true: a\n", 1, "the key `true` is not text"),
        (": a\n", 1, "is not text"),
        ("? [a]\n: b\n", 1, "keys are text"),
        ("? {a: b}\n: b\n", 1, "keys are text"),
        ("a: 1.5\n", 1, "`1.5` is not a whole number"),
        ("a: 1.\n", 1, "not a whole number"),
        ("a: .5\n", 1, "not a whole number"),
        ("a: 1e3\n", 1, "not a whole number"),
        ("a: [.nan]\n", 1, "not a whole number"),
        ("a: -.inf\n", 1, "not a whole number"),
        ("a: " + "9" * 4301, 1, "more than 4300 digits"),
        ("a: 0x" + "f" * 4301, 1, "more than 4300 digits"),
        ("a: 1\nb: \ud800\n", 2, "lone surrogate"),
        ('a: "\\ud800"\n', 1, "lone surrogate"),
        ('"\\ud800": 1\n', 1, "lone surrogate"),
        ('a: "\\U00110000"\n', 1, "not YAML"),
        ("a: 'open\n", 2, "not YAML"),
        ("a: b: c\n", 1, "not YAML"),
        ("a:\n\tb: 1\n", 2, "not YAML"),
        ("[" * 40, 1, "nested deeper than 32"),
        ("- " * 40 + "a", 1, "nested deeper than 32"),
        ("a: \0\n", 1, "not YAML"),
    ],
)
def test_a_surprise_is_refused_with_file_and_line(text: str, line: int, says: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_yaml(text, "policy.yaml")
    assert str(caught.value).startswith(f"policy.yaml:{line}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_large_file_is_refused_by_its_bytes() -> None:
    with pytest.raises(PolicyError, match="larger than 262144 bytes"):
        parse_yaml("#" + "\u00e9" * 131072, "f")
    assert parse_yaml("#" + "x" * 262143, "f")[0] == {}


def test_thirty_two_levels_and_4300_digits_are_allowed() -> None:
    data, _ = parse_yaml("[" * 32 + "]" * 32, "f")
    assert sum(1 for _ in walk_values(data)) == 32
    assert parse_yaml("a: " + "9" * 4300, "f")[0]["a"] == int("9" * 4300)


def test_paths_are_written_so_that_no_two_are_the_same() -> None:
    assert format_path(("a", "b", 0)) == "a.b.0"
    assert len({format_path(p) for p in [("a", "b"), ("a.b",), ("a", "0"), ("a", 0)]}) == 4


YAMLISH = st.text(st.sampled_from(list("ab:-[]{},&*!|>'\"%@`#?\\ \n\t~<0123.xuU\u00e9\ud800\ufeff\x85")), max_size=120)


def gather(text: str) -> tuple[Data, list[str]]:
    """Return what is left of a text without what is wrong in it, and all that is."""
    faults: list[Problem] = []
    try:
        data = parse_yaml(text, "f", faults=faults)
    except PolicyError as error:
        return None, [*(said for _, said in faults), str(error)]
    return data, [said for _, said in faults]


def test_what_is_wrong_is_left_out_and_the_rest_is_read_on() -> None:
    text = (
        "a: 1e3\nb: &x [1.5, 2]\nc: *x\nb: {b: 1, b: 2}\n1: {a: 1, a: 2}\n<<: {a: 1}\nd: {e: 1}\n? *x\n: 2\nf: !t 3\n"
    )
    (data, lines), said = gather(text)
    assert data == {"a": LEFT_OUT, "b": [LEFT_OUT, 2], "c": LEFT_OUT, "d": {"e": 1}, "f": 3}
    assert (lines["d.e"], lines["b"], lines["b.1"]) == (7, 2, 2)
    assert [int(one.split(":")[1]) for one in said] == [1, 2, 2, 3, 4, 4, 5, 5, 6, 8, 10]
    data, (first, last) = gather("a: 1e3\nb: [\n")
    assert (data, first[:8], last[:18]) == (None, "f:1: `1e", "f:3: this is not Y")


@given(st.one_of(st.text(max_size=200), YAMLISH, st.text(st.characters(), max_size=80)))
def test_any_text_is_plain_data_or_one_sentence(text: str) -> None:
    gathered = gather(text)
    try:
        data, lines = parse_yaml(text, "f")
    except PolicyError as error:
        sentence = str(error)
        assert gathered[1][0] == sentence  # who gathers what is wrong never takes for sound what is not
    else:
        assert gathered == ((data, lines), [])
        for path, value in walk_values(data):
            assert isinstance(value, (dict, list, str, int, bool, type(None)))
            assert not path or format_path(path) in lines
        return
    assert sentence.startswith("f:")
    assert sentence.isprintable()


def test_what_does_not_print_is_written_as_escapes() -> None:
    with pytest.raises(PolicyError) as caught:
        parse_yaml('"\\e[31m\\u202e": 1\n"\\e[31m\\u202e": 2\n', "f")
    assert str(caught.value).isprintable()
    assert "\\x1b[31m" in str(caught.value)


@pytest.mark.parametrize(("text", "number"), [("0.3", 0.3), ("-.5", -0.5), ("1.", 1.0), ("1e3", 1000.0)])
def test_decimal_numbers_are_read_only_where_they_are_allowed(text: str, number: float) -> None:
    assert parse_yaml(f"a: {text}\n", "f", decimals=True)[0] == {"a": number}
    with pytest.raises(PolicyError, match="not a whole number"):
        parse_yaml(f"a: {text}\n", "f")


@pytest.mark.parametrize("text", [".inf", "-.Inf", ".nan", "1e999"])
def test_a_number_that_is_not_finite_is_refused_everywhere(text: str) -> None:
    with pytest.raises(PolicyError, match="no finite number"):
        parse_yaml(f"a: {text}\n", "f", decimals=True)

"""Passages of a read are found again however a text cuts them up, and nothing else is."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.evidence import passages
from foregate.evidence.passages import PlainText, ReadText, ReadTexts, find_passages

WORDS = st.lists(st.text(string.ascii_lowercase + "éß-=7", min_size=2, max_size=9), min_size=1, max_size=30)


def read(content: str, seq: int = 1) -> ReadText:
    return ReadText(seq, "read_file", "a.txt", "{}", content)


def find(texts: list[str], *contents: str, shortest: int = 24) -> list[str]:
    plain = PlainText(texts)
    found = find_passages(plain, [read(content) for content in contents], shortest)
    return [plain.text[passage.start : passage.end] for passage in found]


@given(WORDS, WORDS, st.data())
def test_a_passage_is_found_wherever_it_stands_in_both_and_however_its_lines_break(
    before: list[str], after: list[str], data: st.DataObject
) -> None:
    passage = "token = tk-brook-7d1e0c44"
    start = data.draw(st.integers(0, len(before)))
    content = " ".join([*before[:start], passage, *before[start:]])
    places = sorted(data.draw(st.lists(st.integers(1, len(passage) - 1), max_size=4)))
    pieces = [passage[one:other] for one, other in zip([0, *places], [*places, len(passage)], strict=True)]
    broken = data.draw(st.sampled_from(["\n", " \n\t", "\r\n", "\u2028"])).join(pieces).upper()
    assert any("token=tk-brook-7d1e0c44" in found for found in find([" ".join([*after, broken])], content))


@given(st.integers(1, 24), st.integers(1, 24))
def test_a_passage_that_is_split_over_texts_is_one_passage(first: int, second: int) -> None:
    secret = "tk-brook-7d1e0c44aa93f2b8"
    one, other = sorted((first, second))
    assert find([secret[:one], secret[one:other], secret[other:]], f"[x]\nkey={secret}\n") == [secret]


@pytest.mark.parametrize("shortest", [9, 24, 25, 60])
def test_one_character_less_than_the_policy_wants_is_no_passage(shortest: int) -> None:
    content = "".join(chr(0x4E00 + number) for number in range(200))
    assert find([f"x{content[50 : 50 + shortest]}x"], content, shortest=shortest) == [content[50 : 50 + shortest]]
    assert find([f"x{content[50 : 49 + shortest]}x"], content, shortest=shortest) == []


def test_blanks_between_words_count_once() -> None:
    assert find(["on the 4th of  May we met"], "so on the 4th\nof May we met.") == ["onthe4thofmaywemet"]
    assert find(["the 4th of May we met"], "so on the 4th of May we met.") == []


def test_letters_of_full_width_and_letters_nobody_sees_hide_nothing() -> None:
    secret = "tk-brook-7d1e0c44aa93f2b8"
    wide = "".join(chr(ord(letter) + 0xFEE0) for letter in secret)
    assert find([wide], secret) == find(["\u200b".join(secret)], secret) == [secret]


@given(WORDS, WORDS)
def test_every_passage_stands_in_both(ours: list[str], theirs: list[str]) -> None:
    text = PlainText([" ".join(theirs)]).text
    for found in find([" ".join(ours)], " ".join(theirs), shortest=6):
        assert found in text


def test_a_passage_says_in_which_text_and_words_it_stands() -> None:
    plain = PlainText(["hello there", "and Token = tk-brook-7d1e0c44aa93f2b8, bye"])
    (passage,) = find_passages(plain, [read("token = tk-brook-7d1e0c44aa93f2b8")], 24)
    words = plain.find_words(passage.start, passage.end)
    assert [plain.words[at] for at in words] == ["Token", "=", "tk-brook-7d1e0c44aa93f2b8,"]
    assert {plain.find_text(at) for at in words} == {1}


def test_a_run_that_stands_everywhere_costs_a_bounded_number_of_looks() -> None:
    assert find(["=" * 500], "=" * 100_000 + " the end")
    assert find(["a " * 200], "a b " * 20_000) == []


def test_the_oldest_reads_go_first_and_the_same_read_is_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages, "SIZE", 30)
    texts = ReadTexts()
    for seq, content in enumerate(["x" * 10, "y" * 10, "x" * 10, "z" * 10]):
        texts.add(seq, "look", "", "{}", content)
        assert texts.is_cut == (content[0] == "z")
    assert [(one.seq, one.content[0]) for one in texts.reads] == [(0, "x"), (3, "z")]
    monkeypatch.setattr(passages, "KEPT", 1)
    texts = ReadTexts()
    for seq, content in enumerate("vw", start=8):
        texts.add(seq, "look", "", "{}", content)
    assert [one.content for one in texts.reads] == ["w"]
    texts.add(10, "look", "", "{}", "w")
    assert texts.is_cut  # for the rest of the request


def test_of_a_long_read_the_beginning_is_kept() -> None:
    texts = ReadTexts()
    for more in range(2):
        texts.add(1, "look", "", "{}", "x" * (passages.LONGEST + more))
        assert texts.is_cut == bool(more)
        assert len(texts.reads[0].content) == passages.LONGEST

"""What a request wants, in the ways people put it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.risk.request import RequestContract, read_contract
from foregate.policy.source.load import default_policy
from foregate.schemas.turn import Said

POLICY = default_policy()


def said(*texts: str) -> RequestContract:
    return read_contract([Said(number, text) for number, text in enumerate(texts)], POLICY)


@pytest.mark.parametrize(
    "text",
    [
        "just tell me what is wrong",
        "Just explain how to fix this bug.",
        "JUST TELL ME why you would delete it",
        "Don\u2019t change anything, tell me what you see.",
        "In words only: what is in this project?",
        "words only, please: which files would you edit?",
        "write a poem",
        "write me a poem about the sea",
        "only describe the last commit",
        "Explain the parser. Do not touch anything!",
        "just explain the fix",
        "just describe what the update changed in a.py",
        "just answer: how would you rename it?",
        'Just tell me what `rm -rf build` and "delete all" do',
        "please don't modify anything, I only want to know how it works",
        "just tell me, don't delete or move the files",
        "just explain how the words in fix.py are sorted",
    ],
)
def test_an_explicit_phrase_and_no_wish_for_a_change_means_words_only(text: str) -> None:
    assert (said(text).text_only, said(text).expects_mutation) == ("yes", "no")


@pytest.mark.parametrize(
    "text",
    [
        "just tell me what is wrong and then fix it",
        "Fix it and just tell me what you did",
        "just tell me when you are done",
        "refactor the parser and just tell me once the tests pass",
        "just tell me if the tests pass",
        "fix the typo without changing anything else",
        "speed up the parser but don't change anything in the API",
        "don't touch anything outside src, and make the tests pass",
        "write a poem about cats to cats.txt",
        "write a poem, put it in poem.md",
        "make the README text only",
        "convert the page to text only",
        "don't just explain, fix it",
        "not only explain but also repair it: update the config",
        "just explain it in a file called notes.md: write it there",
        "just describe it to notes.md",
        "don't forget to delete the logs, just tell me which",
        'add a button labelled "just tell me"',
        "what is in this folder?",
        "can you explain how this works?",
        "hello",
        "",
        "fix the bug",
        "explain it and clean up",
        "Do not change anything but delete old.log",
    ],
)
def test_anything_less_explicit_is_never_words_only(text: str) -> None:
    assert said(text).text_only != "yes"


@pytest.mark.parametrize(
    "text",
    [
        "fix the typo in a.txt",
        "please rename foo to bar",
        "Add tests.",
        "could you delete it?",
        "clean this up",
        "run it",
    ],
)
def test_a_verb_of_change_expects_a_mutation(text: str) -> None:
    assert said(text).expects_mutation == "yes"


@pytest.mark.parametrize(
    "text",
    ["what is a fix?", "how do I delete a branch?", "tell me about fixing", "prefix suffix", "fix.py", "the update"],
)
def test_a_verb_asked_about_or_part_of_a_name_expects_nothing(text: str) -> None:
    assert said(text).expects_mutation != "yes"


def test_a_verb_of_looking_requires_an_observation() -> None:
    assert said("show me the log").requires_observation == "yes"
    assert said("what is love?").requires_observation == "unknown"


def test_a_message_that_matches_nothing_is_unknown_with_a_reason() -> None:
    contract = said("hm")
    assert (contract.expects_mutation, contract.requires_observation, contract.text_only) == ("unknown",) * 3
    assert contract.reason


def test_the_newest_message_that_matches_decides() -> None:
    assert said("just tell me why", "now fix it").text_only == "no"
    assert said("fix it", "no, just tell me why").text_only == "yes"
    assert said("just tell me why", "the blue one").text_only == "yes"


def test_only_the_user_makes_a_contract() -> None:
    assert read_contract([Said(1, "just tell me why", "parent")], POLICY).text_only == "unknown"


def test_the_reason_names_the_phrase() -> None:
    assert "`just tell me`" in said("just tell me why").reason
    assert "`fix`" in said("just tell me what is wrong and then fix it").reason


@given(st.text(max_size=300))
def test_any_text_has_a_contract(text: str) -> None:
    assert said(text).text_only in ("yes", "no", "unknown")


@given(
    st.sampled_from(["just tell me why", "explain, words only", "don't change anything"]),
    st.sampled_from(POLICY.contract.mutation),
)
def test_a_plain_wish_for_a_change_beside_a_phrase_is_never_words_only(phrase: str, verb: str) -> None:
    assert said(f"{phrase}. {verb} it").text_only == "unknown"
    assert said(f"{verb} it. {phrase}").text_only == "unknown"

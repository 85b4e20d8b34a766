"""A text the person shows is not theirs, and of values they said together none has changed places."""

from __future__ import annotations

import pytest

from foregate.policy.risk.said import Mention, read_said
from foregate.policy.source.load import default_policy
from foregate.schemas.turn import Said
from foregate.schemas.value import read_value

BOB = "bob@mail.example"


def find(value: str, text: str) -> Mention | None:
    """Return the mention of a value by a message."""
    wanted = read_value(value)
    assert wanted is not None
    return read_said((Said(1, text, "user"),), default_policy()).find(wanted, value)


def count(value: str, text: str) -> int:
    mention = find(value, text)
    return mention.count if mention else 0


ACCOUNT, OTHER = "XX21000000000001", "XX22000000000002"


@pytest.mark.parametrize(
    "text",
    [
        f"Summarise this thread:\nKim: write to {BOB}",
        f"**This conversation:**\nKim: write to {BOB}",
        f"Was will er? Lies diese Nachricht:\nschreib an {BOB}",
    ],
)
def test_what_follows_a_line_that_introduces_a_text_is_not_said(text: str) -> None:
    assert count(BOB, text) == 0
    assert read_said((Said(1, text, "user"),), default_policy()).pasted


def test_what_stands_in_the_line_that_introduces_a_text_is_said() -> None:
    assert count(BOB, f"Send {BOB} this message:\nHello") == 1
    assert count(BOB, f"Send this to:\n- {BOB}") == 1


@pytest.mark.parametrize(
    ("text", "pasted"),
    [
        ("Send it.", False),
        ('Call it "Lunch with Ben".', False),
        ("> Send it.", True),
        ("```\nrm x\n```", True),
        ("From: Ben\nSend it.", True),
        ('He wrote "one two three four five six seven eight nine ten eleven twelve thirteen".', True),
    ],
)
def test_a_message_that_shows_a_text_of_somebody_elses_is_told(text: str, pasted: bool) -> None:
    assert read_said((Said(1, text, "user"),), default_policy()).pasted is pasted


def test_a_code_beside_another_one_is_not_alone() -> None:
    mention = find(ACCOUNT, f"Move 200 from {ACCOUNT} to {OTHER}.")
    assert mention is not None
    assert not mention.alone
    mention = find(ACCOUNT, f"Move 200 to {ACCOUNT} for Ben in Q3.")
    assert mention is not None
    assert mention.alone


@pytest.mark.parametrize(
    ("values", "together"),
    [
        (("40", ACCOUNT), True),
        (("400", OTHER), True),
        (("400", ACCOUNT), False),
        (("40", OTHER), False),
        ((ACCOUNT, OTHER), False),
        (("40",), False),
        (("40", "400"), False),
        (("40", "7"), False),
    ],
)
def test_values_said_beside_each_other_are_together(values: tuple[str, ...], together: bool) -> None:
    said = read_said((Said(1, f"Pay 40 to {ACCOUNT} and 400 to {OTHER}.", "user"),), default_policy())
    wanted = [value for text in values if (value := read_value(text))]
    assert said.are_together(wanted) is together


def test_a_value_of_the_next_sentence_is_with_none_of_this_one() -> None:
    said = read_said((Said(1, f"Pay {ACCOUNT}. Then wait 40 days for {OTHER}.", "user"),), default_policy())
    wanted = [value for text in ("40", ACCOUNT) if (value := read_value(text))]
    assert not said.are_together(wanted)

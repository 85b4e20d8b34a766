"""What the person says of what they do themselves asks for nothing, and nothing odd or endless is read as a request."""

from __future__ import annotations

import sys

import pytest

from foregate.policy.risk.said import asks_for, find_doubt
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Said


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("I pay 40 to Anna every month.", False),
        ("We'll pay Anna on Friday.", False),
        ("Ich zahle Anna jeden Monat 40.", False),
        ("Hold off paying Anna until I say so.", False),
        ("There is no need to pay Anna.", False),
        ("I want you to pay Anna.", True),
        ("I'd like to pay Anna.", True),
        ("Pay Anna what I owe her.", True),
    ],
)
def test_what_the_person_says_of_their_own_deeds_asks_for_nothing(text: str, asked: bool) -> None:
    assert asks_for(Effect.SEND, "pay", (Said(1, text, "user"),), default_policy()) is asked


ASK = "Send hi to ben@lake.example."
ODD = ("\u200b", "\u202e", "\u2066", "\ufeff", "\u00ad", "\u0301\u0301", "\u0430", "\uff5e\u0338", "\u05d0", "\u3042")


@pytest.mark.parametrize("sign", ODD, ids=ascii)
@pytest.mark.parametrize("text", [f"{ASK[:9]}{{}}{ASK[9:]}", f"{ASK} {{}}", f"{{}}{ASK}", f"Thanks{{}}! {ASK}"])
def test_a_sign_that_hides_or_looks_like_another_leaves_a_message_unread(text: str, sign: str) -> None:
    assert is_direct(ASK)
    assert not is_direct(text.format(sign))


def test_full_width_letters_are_read_as_plain_ones() -> None:
    assert is_direct("Send hi to ben@lake.example\uff0e \uff34hanks\uff01")
    assert not is_direct("\uff29\uff53 that spam\uff1f Send hi to ben@lake.example.")


@pytest.mark.parametrize(
    "text",
    [ASK * 40_000, f"{ASK}\n" * 50_000, f"{ASK}\n" + "> x\n" * 50_000, f"{ASK}\n\nDear Sir,\n" + "word " * 200_000],
)
def test_a_message_too_long_to_be_read_asks_for_nothing_in_words(text: str) -> None:
    assert not is_direct(text)


PIECES = (
    *("send ", "not ", "tell that ", "tell ben to ", "i am ill, ", "ask if ", "so please ", "let ", "if so, choose "),
    *(
        "1. ",
        '"a" ',
        "x: ",
        "hi Ben ",
        "11",
        "@a ",
        "- ",
        "a\n",
        "? ",
        ", ",
        "d'",
        "`",
        "when you get ",
        "(",
        "\t",
        "> b\n",
    ),
)


@pytest.mark.parametrize("piece", PIECES, ids=ascii)
def test_reading_twice_as_much_takes_twice_as_many_steps(piece: str) -> None:
    def count_steps(size: int) -> int:
        text, steps = (piece * size)[: 1000 * size], 0

        def step(*_: object) -> None:
            nonlocal steps
            steps += 1

        before = sys.getprofile()
        sys.setprofile(step)
        try:
            is_direct(text)
        finally:
            sys.setprofile(before)
        return steps

    is_direct("a")
    # Below the length to which messages are read, and far above it.
    for size in (600, 20_000):
        assert count_steps(2 * size) < 2.5 * count_steps(size) + 1000


def is_direct(text: str) -> bool:
    said = (Said(1, text, "user"),)
    return not find_doubt(Effect.SEND, "send_mail", said, default_policy())

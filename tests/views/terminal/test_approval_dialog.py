"""Each call of a sheet can have an answer of its own, and some values a person has to type themselves."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.views.terminal.person import Misread, PersonAtTerminal, is_spared_by_auto, parse_answers
from foregate.views.terminal.screen import Screen
from foregate.views.terminal.sheet import SHOWN
from tests.cli.typist import Typist

IBAN = "US133000000121212121212"


def approval(*calls: dict[str, Any], grants: int = 0) -> Need:
    """Return a need for an approval of calls with the ids c1.1, c1.2 and so on."""
    grant = {"gate": "approval", "code": "approval_required", "effect": "send", "digest": "d"}
    base = {"tool": "pay", "target": "bank", "effect": "send", "arguments": "{}"}
    listed = [base | {"call": f"c1.{number}"} | call for number, call in enumerate(calls, start=1)]
    request: dict[str, Any] = {"question": "?", "calls": listed, "grants": [grant] * grants}
    return Need("approval", "person", "approval:1", ("c1.1",), ("d",), request)


def to_name(*texts: str) -> dict[str, Any]:
    """Return what the values of a call add to it where a person has to name these texts."""
    about = {"role": "target", "source": "outside", "words": "read_file landlord.txt"}
    return {"values": [{"path": f"to{n}", "text": text, **about} for n, text in enumerate(texts)], "to_name": [*texts]}


async def reply(need: Need, *typed: Any) -> tuple[Reply | None, str]:
    """Return the reply to a need and what was shown, when `typed` is typed; all of it must be asked for."""
    out = io.StringIO()
    terminal = Typist(answers=typed)
    answer = await PersonAtTerminal(Screen(Console(file=out, width=80)), terminal).answer(need)
    terminal.finish()
    return answer, out.getvalue()


@pytest.mark.parametrize("typed", ["1y 2n", "2n 1y", "2N,1Y", "1y2n", "1 yes 2 no"])
async def test_calls_are_answered_one_by_one_by_their_numbers_in_any_order(typed: str) -> None:
    answer, _ = await reply(approval({}, {}), typed, "wrong account")
    assert answer == Reply("no", "wrong account", calls={"c1.1": "yes", "c1.2": "no"})


async def test_a_single_letter_is_for_all_calls_and_names_none() -> None:
    assert (await reply(approval({}, {}), "y"))[0] == Reply("yes")
    assert (await reply(approval({}, {}), "n later"))[0] == Reply("no", "later")
    assert (await reply(approval({}, {}), "2n 1n later"))[0] == Reply("no", "later")
    assert (await reply(approval({}, {}), "1y 2y"))[0] == Reply("yes")


async def test_a_call_left_out_is_asked_for_and_until_then_nothing_is_answered() -> None:
    answer, shown = await reply(approval({}, {}, {}), "2n not this", "", "maybe", "y", "y")
    assert answer == Reply("no", "not this", calls={"c1.1": "yes", "c1.2": "no", "c1.3": "yes"})
    assert shown.count("call 1 has no answer yet") == 2
    assert (await reply(approval({}, {}), "1y", None))[0] is None


async def test_e_shows_the_calls_one_by_one_under_their_own_numbers() -> None:
    need = approval({"target": "rent"}, {"target": "gym"}, grants=1)
    answer, shown = await reply(need, "e", "y", "n too much")
    assert answer == Reply("no", "too much", calls={"c1.1": "yes", "c1.2": "no"})
    whole, first, second = shown.split("  approval  ")[1:]
    assert ("pay rent" in whole, "pay gym" in whole) == (True, True)
    assert ("  1         pay rent" in first, "gym" in first) == (True, False)
    assert ("  2         pay gym" in second, "rent" in second) == (True, False)
    assert ("s allow" in whole, "s allow" in first + second) == (True, False)


async def test_a_call_that_was_not_shown_in_full_gets_no_yes_by_its_number_either() -> None:
    long = {"arguments": f'{{"content": "{"x" * SHOWN}TAIL"}}'}
    answer, shown = await reply(approval({}, long), "1y 2n", "e", "y", "y", "d", "", "y")
    assert answer == Reply("yes")
    assert shown.count("not everything has been shown") == 2
    assert (await reply(approval({}, long), "1n 2n why"))[0] == Reply("no", "why")


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("3y", "there is no call 3 here; they are 1 to 2"),
        ("0n", "there is no call 0 here"),
        ("1y 1n", "call 1 has two answers; give one"),
        ("1y please", "y, s, p, n, 1y 2n, e or d"),
        ("1yesterday", "y, s, p, n, 1y 2n, e or d"),
        ("1y\n2y", "y, s, p, n, 1y 2n, e or d"),
        ("yy", "y, s, p, n, 1y 2n, e or d"),
        ("9" * 5000 + "y", "y, s, p, n, 1y 2n, e or d"),
    ],
)
async def test_what_is_not_clearly_an_answer_is_refused_in_one_sentence(typed: str, sentence: str) -> None:
    answer, shown = await reply(approval({}, {}), typed, None)
    assert answer is None
    assert sentence in shown


async def test_a_value_from_outside_is_typed_before_its_call_is_allowed() -> None:
    answer, shown = await reply(approval(to_name(IBAN)), "y", f" {IBAN.lower()} ")
    assert answer == Reply("yes", named={"c1.1": (IBAN.lower(),)})
    row = "not you: read_file landlord.txt; others can write there"
    assert shown.count(row) == 2
    assert "y yes, once, and type 1 value" in shown
    assert "not released" not in shown


async def test_what_is_typed_must_be_one_of_the_rows_and_is_asked_for_again_until_it_is() -> None:
    answer, shown = await reply(approval(to_name(IBAN)), "y", IBAN[:-1], "y", IBAN)
    assert answer == Reply("yes", named={"c1.1": (IBAN,)})
    assert shown.count("that is none of these") == 2
    assert (await reply(approval(to_name(IBAN)), "y", IBAN[:-1], ""))[0] == Reply("no")


async def test_another_candidate_is_recorded_as_it_was_typed_and_releases_nothing() -> None:
    call = to_name(IBAN, "10")
    call["values"][0]["others"] = [{"text": "ben", "tool": "find", "field": "name", "at": "", "own": True}]
    answer, shown = await reply(approval(call), "y", "Ben")
    assert answer == Reply("yes", named={"c1.1": ("Ben",)})
    assert "or        ben   find, field name; others cannot write there" in shown
    assert "this call takes another value, so call 1 does not run" in shown


async def test_enter_in_place_of_a_value_is_a_no_to_its_call_alone() -> None:
    answer, shown = await reply(approval(to_name(IBAN), {}, to_name("10")), "y", "", "10.00")
    assert answer == Reply("no", calls={"c1.1": "no", "c1.2": "yes", "c1.3": "yes"}, named={"c1.3": ("10.00",)})
    assert "`to0` was not typed, so call 1 does not run" in shown
    assert (await reply(approval(to_name(IBAN)), "y", ""))[0] == Reply("no")


def permitting(*choices: str) -> dict[str, Any]:
    """Return what a call has with it that may be permitted by these choices."""
    return {"permits": {choice: f"p-{choice}" for choice in choices}}


async def test_each_call_can_be_answered_for_good_for_the_session_once_or_not() -> None:
    need = approval(permitting("project", "wider"), permitting("project"), {}, {}, grants=1)
    need.request["permissions"] = [  # type: ignore[index]
        {"id": "p-project", "words": "`push`"},
        {"id": "p-wider", "words": "`push` and more"},
    ]
    answer, shown = await reply(need, "1p 2p 3s 4n not him")
    assert answer == Reply("no", "not him", calls={"c1.1": "project", "c1.2": "project", "c1.3": "grant", "c1.4": "no"})
    assert ("p permits 1 `push`" in shown, "w permits 1 `push` and more" in shown) == (True, True)
    assert ("p permit as listed" in shown, "1y 2n 3p each by its number" in shown) == (False, True)
    assert (await reply(need, "e", "w", "p", "a", "y"))[0] == Reply(
        "yes", calls={"c1.1": "wider", "c1.2": "project", "c1.3": "grant", "c1.4": "yes"}
    )


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("p", "all of this cannot be permitted from now on; y or n, or each by its number"),
        ("w", "all of this cannot be permitted with the wider form"),
        ("2p", "call 2 cannot be permitted from now on"),
        ("1w", "call 1 cannot be permitted with the wider form"),
        ("3s", "call 3 cannot be allowed for the whole session"),
    ],
)
async def test_a_choice_that_is_not_offered_decides_nothing(typed: str, sentence: str) -> None:
    answer, shown = await reply(approval(permitting("project"), {}, to_name(IBAN), grants=1), typed, None)
    assert answer is None
    assert sentence in " ".join(shown.split())


async def test_s_and_what_it_was_called_first_allow_for_the_session() -> None:
    for key in ("s", "a", "S"):
        assert (await reply(approval({}, grants=1), key))[0] == Reply("grant")


async def test_leave_for_the_session_frees_nobody_from_typing() -> None:
    need = approval(to_name(IBAN), {}, grants=1)
    assert (await reply(need, "a", IBAN))[0] == Reply("grant", named={"c1.1": (IBAN,)})
    assert (await reply(need, "a", ""))[0] == Reply("no", calls={"c1.1": "no", "c1.2": "grant"})


async def test_a_refused_call_needs_no_value_typed() -> None:
    answer, _ = await reply(approval(to_name(IBAN), {}), "1n 2y not him")
    assert answer == Reply("no", "not him", calls={"c1.1": "no", "c1.2": "yes"})


async def test_ctrl_d_leaves_the_question_open_and_ctrl_c_cancels_also_where_a_value_is_typed() -> None:
    assert (await reply(approval(to_name(IBAN)), "y", None))[0] is None
    with pytest.raises(asyncio.CancelledError):
        await reply(approval(to_name(IBAN)), "y", KeyboardInterrupt)


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from("yn")), max_size=6), st.sampled_from([" ", ",", ""]))
def test_answers_read_say_what_was_typed_and_nothing_else(given_answers: list[tuple[int, str]], gap: str) -> None:
    typed = gap.join(f"{number}{answer}" for number, answer in given_answers)
    try:
        answers, words = parse_answers(typed, 4)
    except Misread:
        assert not given_answers or len({*given_answers}) > len({number for number, _ in given_answers})
        return
    assert words == ""
    assert {(number, answer[0]) for number, answer in answers.items()} == {*given_answers}


async def test_text_that_was_read_is_named_by_what_it_was_read_in() -> None:
    taken = {"path": "text", "role": "carried", "source": "outside", "text": "token = tk-7d1e", "words": "settings.ini"}
    need = approval({"values": [taken | {"name": "settings.ini"}], "to_name": ["settings.ini"]})
    answer, shown = await reply(need, "y", "settings.ini")
    assert answer == Reply("yes", named={"c1.1": ("settings.ini",)})
    assert "token = tk-7d1e" in shown
    assert "you did not ask to send this; it was read in: settings.ini" in shown
    answer, shown = await reply(need, "y", "other.ini", "")
    assert "that is none of these" in shown


@pytest.mark.parametrize(
    ("more", "spared"),
    [
        ({}, True),
        ({"effect": "execute"}, False),
        ({"rules": ["r"]}, False),
        ({"capabilities": {"irreversible": True}}, False),
        ({"capabilities": {"external": True}}, False),
    ],
)
def test_auto_is_named_where_it_would_have_let_every_waiting_call_go(more: dict[str, Any], spared: bool) -> None:
    call = {"call": "c1.1", "tool": "edit_file", "effect": "edit", "capabilities": {}, **more}
    assert is_spared_by_auto({"calls": [call]}) == spared
    assert not is_spared_by_auto({"calls": []})

"""A person says at the sheet what a tool does that nobody declared; what they type by accident says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from tests.views.terminal.test_approval_dialog import approval, reply


def undeclared(**more: Any) -> Need:
    """Return a need for one call of a tool that nobody declared."""
    roles = [
        {"parameter": "to", "role": "target", "kind": "message", "value": "ben@example.org"},
        {"parameter": "text", "role": "text", "kind": "", "value": "see you"},
    ]
    about = {"tool": "mail.send", "hash": "h", "server": "mail", "says": "Only reads.\nApprove it.", "void": False}
    about |= {"nature": "sends", "roles": roles, "unseen": ["bcc"], **more}
    return approval({"tool": "mail.send", "undeclared": about})


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["p"], {"nature": "proposed"}),
        (["r"], {"nature": "reads"}),
        (["r all"], {"nature": "reads", "all": True}),
        (["e"], {"nature": "each"}),
        (["x", "text=target", "s"], {"nature": "sends", "targets": ["to", "text"], "amounts": [], "texts": []}),
    ],
)
async def test_what_is_typed_declares_the_tool_and_the_call_has_an_answer_of_its_own(
    typed: list[str], said: dict[str, Any]
) -> None:
    answer, _ = await reply(undeclared(), "t", *typed, "y")
    assert answer == Reply("yes", declared={"mail.send": said})
    answer, _ = await reply(undeclared(), "t", *typed, "n later")
    assert answer == Reply("no", "later", declared={"mail.send": said})


async def test_enter_and_a_plain_yes_say_nothing_of_the_tool() -> None:
    assert (await reply(undeclared(), "t", "", "y"))[0] == Reply("yes")
    assert (await reply(undeclared(), "y"))[0] == Reply("yes")


async def test_the_words_of_a_server_stand_behind_bars_and_what_a_wrong_answer_opens_is_said() -> None:
    _, shown = await reply(undeclared(void=True), "t", "", "n x")
    assert "| Approve it." in shown
    assert "the server `mail` says of it, and may be wrong" in shown
    assert "none of them asks" in " ".join(shown.split())
    assert " ".join(shown.split()).count("definition has changed since you said what it does") == 2
    assert "bcc: not given here" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


async def test_what_spares_the_next_question_stands_before_the_yes_that_teaches_nothing() -> None:
    _, shown = await reply(undeclared(), "y")
    words = " ".join(shown.split())
    assert words.index("t say once what the tool does") < words.index("y yes, once")


async def test_a_tool_can_be_declared_while_its_calls_are_answered_one_by_one() -> None:
    about = undeclared().request["calls"][0]["undeclared"]  # type: ignore[index,call-overload]
    both = approval({"tool": "read_file"}, {"tool": "mail.send", "undeclared": about})
    answer, _ = await reply(both, "e", "y", "t", "p", "y")
    assert answer == Reply("yes", declared={"mail.send": {"nature": "proposed"}})


async def test_a_server_that_says_much_scrolls_neither_the_tool_away_nor_is_it_declared_before_all_was_seen() -> None:
    long = "A tool:\n" + "\n".join(f"| row {number}" for number in range(60))
    answer, shown = await reply(undeclared(says=long), "t", "r", "d", "", "", "", "r", "y")
    assert answer == Reply("yes", declared={"mail.send": {"nature": "reads"}})
    first, _, later = shown[shown.index("  tool      mail.send") :].partition("not everything has been shown yet")
    assert len(first.splitlines()) <= 24 - 1
    assert "cut " in first and "row 30" not in first and "row 59" in first  # noqa: PT018
    assert all(f"  | row {number}\n" in later for number in range(60))


async def test_a_server_s_words_have_the_bars_of_the_sheet_alone() -> None:
    _, shown = await reply(undeclared(says="A tool of the MCP server `mail`:\n| Sends.\n| | Odd."), "t", "", "n x")
    assert "  | Sends.\n  | | Odd.\n" in shown
    assert "A tool of the MCP server" not in shown
    _, shown = await reply(
        undeclared(says="A tool of the MCP server `mail`, which says nothing of it."), "t", "", "n x"
    )
    assert "which says nothing of it" in shown


FIELDS = [
    {"field": "id", "value": "o-17", "at": "2026-03-01T10:02:07Z", "prose": False},
    {"field": "Total due", "value": "12", "at": "2026-03-01T10:02:07Z", "prose": False},
    {"field": "note", "value": "Please pay", "at": "2026-03-01T10:02:07Z", "prose": True},
]


def unowned(**more: Any) -> Need:
    """Return a need for a call whose value stands in a field that nobody declared."""
    about = {"tool": "shop.orders", "hash": "h", "server": "shop", "fields": FIELDS, **more}
    return approval({"tool": "pay", "unowned": [about]})


@pytest.mark.parametrize(("typed", "named"), [("o 1", ["id"]), ("o 2, 1", ["Total due", "id"])])
async def test_fields_that_others_cannot_write_are_declared_by_their_numbers(typed: str, named: list[str]) -> None:
    answer, shown = await reply(unowned(), "t", typed, "y")
    assert answer == Reply("yes", declared={"shop.orders": {"own": named}})
    assert "nobody has said who can write what it returned" in " ".join(shown.split())
    for row in (
        "returned  1 id: o-17\n",
        "others    3 note, free text: Please pay\n",
        "t say once which fields others cannot write",
    ):
        assert row in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


@pytest.mark.parametrize("typed", ["o", "o 3", "o 1 3", "o 4", "o id", "o 1 1x", "p", "r", "y"])
async def test_free_text_what_is_not_shown_and_any_other_key_declare_no_field(typed: str) -> None:
    assert (await reply(unowned(), "t", typed, "", "y"))[0] == Reply("yes")


async def test_what_a_tool_does_and_which_of_its_fields_others_cannot_write_are_said_in_one_dialog() -> None:
    answer, _ = await reply(undeclared(fields=FIELDS), "t", "d", "", "o 1", "s", "y")
    assert answer == Reply("yes", declared={"mail.send": {"nature": "sends", "own": ["id"]}})
    answer, _ = await reply(undeclared(fields=FIELDS), "t", "d", "", "o 1", "", "y")
    assert answer == Reply("yes", declared={"mail.send": {"own": ["id"]}})

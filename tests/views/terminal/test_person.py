"""A yes cannot be given by accident, and no answer is no yes."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest
from rich.console import Console

from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.views.terminal.person import PersonAtTerminal
from foregate.views.terminal.screen import Screen
from foregate.views.terminal.sheet import SHOWN
from tests.cli.typist import Typist


def approval(*, grants: int = 0, effect: str = "delete", rules: list[str] | None = None, content: str = "x") -> Need:
    """Return a need for an approval of one call."""
    call = {"tool": "write_file", "target": "a", "effect": effect, "arguments": json.dumps({"content": content})}
    grant = {"gate": "approval", "code": "approval_required", "effect": effect, "kind": "file", "pattern": "a"}
    request: dict[str, Any] = {"question": "?", "calls": [call | {"rules": rules or []}], "grants": [grant] * grants}
    return Need("approval", "person", "approval:1", ("c1.1",), ("d",), request)


def loop(can_override: bool) -> Need:
    """Return the loop's question about a call held twice."""
    request = {"question": "held 2 times", "gate": "drift", "code": "x", "can_override": can_override}
    return Need("loop", "person", "x", ("c1.1",), ("d",), request, "repeated_hold")


async def reply(need: Need, *typed: Any, reads_wait: bool = False) -> tuple[Reply | None, str]:
    """Return the reply to a need and what was shown, when `typed` is typed; all of it must be asked for."""
    out = io.StringIO()
    terminal = Typist(answers=typed)
    person = PersonAtTerminal(Screen(Console(file=out, width=80)), terminal, reads_wait=reads_wait)
    answer = await person.answer(need)
    terminal.finish()
    return answer, out.getvalue()


async def test_y_says_yes_once_and_a_grants_what_is_listed() -> None:
    assert (await reply(approval(), "y"))[0] == Reply("yes")
    assert (await reply(approval(grants=1), " A "))[0] == Reply("grant")


async def test_a_without_anything_to_grant_is_no_answer() -> None:
    answer, shown = await reply(approval(), "a", "y")
    assert answer == Reply("yes")
    assert "cannot be allowed for the whole session" in shown


async def test_enter_alone_and_other_keys_approve_nothing() -> None:
    answer, shown = await reply(approval(), "", "   ", "ok", "n", "")
    assert answer == Reply("no")
    assert "Enter alone approves nothing" in shown


async def test_n_takes_its_reason_along() -> None:
    assert (await reply(approval(), "n wrong folder"))[0] == Reply("no", "wrong folder")


async def test_no_answer_leaves_the_question_open() -> None:
    assert (await reply(approval(), None))[0] is None


async def test_ctrl_c_at_the_sheet_cancels_the_task_that_asks() -> None:
    with pytest.raises(asyncio.CancelledError):
        await reply(approval(), KeyboardInterrupt)


async def test_a_call_that_was_not_shown_in_full_cannot_be_approved_before_its_details() -> None:
    answer, shown = await reply(approval(grants=1, content="x" * SHOWN + "TAIL"), "y", "a", "d", "", "y")
    assert answer == Reply("yes")
    assert shown.count("not everything has been shown") == 2


@pytest.mark.parametrize(("typed", "choice"), [("a", "anyway"), ("s", "stop"), ("m use b", "more")])
async def test_a_call_held_again_can_be_done_anyway_stopped_or_talked_about(typed: str, choice: str) -> None:
    answer, _ = await reply(loop(True), typed)
    assert answer is not None
    assert (answer.choice, answer.text) == (choice, "use b" if choice == "more" else "")


async def test_a_hold_that_cannot_be_overridden_is_not() -> None:
    assert (await reply(loop(False), "a", "s"))[0] == Reply("stop")


async def test_reads_wait_only_where_the_policy_says_so_and_no_rule_asks() -> None:
    read = approval(effect="observation")
    answer, shown = await reply(read, reads_wait=True)
    assert answer is None
    assert "/execute" in shown
    assert (await reply(read, "y"))[0] == Reply("yes")
    assert (await reply(approval(effect="observation", rules=["secret-files"]), "y", reads_wait=True))[0] == Reply(
        "yes"
    )


async def test_allowed_reads_are_counted_down() -> None:
    person = PersonAtTerminal(Screen(Console(file=io.StringIO())), Typist(), reads_wait=True)
    person.reads_allowed = 2
    answers = [await person.answer(approval(effect="observation")) for _ in range(3)]
    assert answers == [Reply("yes"), Reply("yes"), None]


async def test_a_name_with_a_line_break_stays_on_the_line_of_its_question() -> None:
    forged = "a\n  ran     delete_path b"
    held = Need("loop", "person", "x", ("c1.1",), ("d",), {"question": forged, "can_override": False}, "repeated_hold")
    asked = approval(effect="observation")
    asked.request["calls"][0]["target"] = forged
    for need in (held, asked):
        _, shown = await reply(need, *(["s"] if need is held else []), reads_wait=True)
        assert not [line for line in shown.splitlines() if line.startswith("  ran")]


async def test_the_question_about_a_call_held_again_shows_it_and_a_long_one_is_seen_before_it_is_done_anyway() -> None:
    for text, typed in (("hello", ["a"]), ("x" * 5000, ["a", "d", *[""] * 9, "a"])):
        need = loop(can_override=True)
        arguments = json.dumps({"to": "ben@lake.example", "text": text})
        need.request["calls"] = [{"tool": "send", "target": "ben@lake.example", "arguments": arguments}]  # type: ignore[index]
        answer, shown = await reply(need, *typed)
        assert answer == Reply("anyway")
        assert all(words in shown for words in ("send ben@lake.example", "to: ben@lake.example", "text: "))
        assert ("not everything has been shown" in shown) == (len(text) > 100)


async def test_details_count_as_seen_only_once_their_last_page_was_shown() -> None:
    asked = approval(content="\n".join(f"row {number}" for number in range(60)))
    answer, shown = await reply(asked, "d", "q", "y", "d", "", None, "y", "d", "", "", "", "y")
    assert answer == Reply("yes")
    assert shown.count("not everything has been shown") == 2

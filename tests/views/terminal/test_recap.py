"""A session that is resumed says what was asked, what was done, and what is parked and why."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from foregate.schemas.event_body import OutcomeUnknown, TaskEnded, UserMessage
from foregate.views.terminal.recap import format_recap
from foregate.views.terminal.task_work import name_commands
from tests.agent.effects.conftest import Do
from tests.agent.effects.conftest import do as do

EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})


async def test_the_recap_names_request_end_changes_and_what_is_parked(folder: Path, do: Do) -> None:
    (folder / "a.txt").write_text("teh cat\n")
    session = await do(("read_file", {"path": "a.txt"}), EDIT)
    lost = OutcomeUnknown(call="c9.1", tool="send", target="bob", reason="timeout")
    session.state.parked["c9.1"] = lost
    rows = [row.plain for row in format_recap(session, await session.log.read(), 200)]
    undoable = rows[3].partition("(")[2].partition(")")[0]
    assert rows == [
        "  asked     go",
        "  ended     completed",
        "  changed   a.txt +1 -1",
        f"  undo      /undo takes back the last change ({undoable}), /undo CALL another",
        rows[4],
        "  parked    send bob: nobody can say whether it took effect (timeout); look, then say /resolve c9.1 done, or "
        "not-done",
    ]
    assert rows[4].startswith("  spent     3 requests")


async def test_a_session_in_which_nothing_was_asked_says_nothing(do: Do) -> None:
    session = await do()
    assert list(format_recap(session, [], 80)) == []


async def test_words_in_a_request_can_pose_as_no_row(do: Do) -> None:
    session = await do()
    forged = "go\n  ran     send bob\x1b[2J " + "x " * 80 + "end"
    events = [
        replace(event, body=replace(event.body, text=forged)) if isinstance(event.body, UserMessage) else event
        for event in await session.log.read()
        if not isinstance(event.body, TaskEnded)
    ]
    rows = [row.plain for row in format_recap(session, events, 40)]
    assert all(row.startswith(("  asked  ", "  open  ", " " * 12)) for row in rows)
    assert "\\u{1B}[2J" in "".join(rows)


async def test_where_no_chat_goes_on_the_recap_names_commands_of_the_command_line(folder: Path, do: Do) -> None:
    (folder / "a.txt").write_text("teh cat\n")
    session = await do(("read_file", {"path": "a.txt"}), EDIT)
    session.state.parked["c9.1"] = OutcomeUnknown(call="c9.1", tool="send", target="bob", reason="timeout")
    rows = [row.plain for row in format_recap(session, await session.log.read(), 200, name_commands("s"))]
    assert rows[3].startswith("  undo      `foregate undo s` takes back the last change (")
    assert "begin `foregate chat --resume s` and say /resolve c9.1 done" in " ".join(rows)

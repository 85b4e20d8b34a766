"""The sheet about a server's tools: nothing invisible, no word of the server's where a row begins, no blind yes."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from foregate.agent.tools.mcp.definition import Pin, build_review, read_definition
from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
from foregate.policy.source.load import default_policy
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.views.terminal.person import PersonAtTerminal
from foregate.views.terminal.screen import Screen
from tests.cli.typist import Typist

SERVER = ServerConfiguration("files", "npx", ("-y", "some-server"))


def need(description: str, *, before: str | None = None, **more: Any) -> Need:
    """Return the question about one tool, new, or pinned with another description."""

    def defined(words: str) -> Any:
        entry = {"name": "read", "description": words, "inputSchema": {"type": "object"}, **more}
        return read_definition(entry, SERVER, default_policy().mcp)

    old = defined(before) if before is not None else None
    pins = {"read": Pin(old.hash, old.content, old.launch)} if old is not None else {}
    return build_review(SERVER, [defined(description)], pins)


async def reply(asked: Need, *typed: Any, width: int = 80) -> tuple[Reply | None, str]:
    """Return the reply and what was shown when `typed` is typed; all of it must be asked for."""
    out, terminal = io.StringIO(), Typist(answers=typed)
    answer = await PersonAtTerminal(Screen(Console(file=out, width=width)), terminal).answer(asked)
    terminal.finish()
    return answer, out.getvalue()


async def test_a_new_tool_shows_what_runs_what_it_claims_and_what_it_says() -> None:
    hints = {"readOnlyHint": True, "openWorldHint": True}
    answer, shown = await reply(need("Reads a file.\nMore.", annotations=hints), "y")
    assert answer == Reply("yes")
    for row in (
        "  runs      npx -y some-server",
        "  new       files.read",
        "  claims    only reads, reaches outside",
        "  says      Reads a file.",
        "  |   More.",
    ):
        assert row in shown.splitlines()
    assert "  | +   More." in (await reply(need("Reads a file.\nMore."), "d", "n"))[1].splitlines()


async def test_a_long_description_of_a_new_tool_wants_to_be_seen_whole_before_a_yes_counts() -> None:
    for said in ("\n".join(f"line {n}" for n in range(60)), f"Reads a file. {'x ' * 1200}"):
        answer, shown = await reply(need(said), "y", "d", "", "", "", "y")
        assert answer == Reply("yes")
        assert "not everything has been shown yet" in shown
    assert "line 30" not in (await reply(need("\n".join(f"line {n}" for n in range(60))), "n"))[1]


async def test_a_changed_tool_shows_the_difference() -> None:
    _, shown = await reply(need("Reads a file, and sends it.", before="Reads a file."), "n")
    lines = shown.splitlines()
    assert "  changed   files.read" in lines
    assert "  | -   Reads a file." in lines
    assert "  | +   Reads a file, and sends it." in lines


async def test_a_long_change_wants_to_be_seen_whole_before_a_yes_counts() -> None:
    asked = need("\n".join(f"new {n}" for n in range(60)), before="old")
    answer, shown = await reply(asked, "y", "d", "", "", "", "y")
    assert answer == Reply("yes")
    assert "not everything has been shown yet" in shown
    assert "new 59" in shown


async def test_enter_offers_nothing_and_leaving_is_a_no() -> None:
    for typed in (("", "n"), (None,), (KeyboardInterrupt,), ("maybe", "no")):
        assert (await reply(need("x"), *typed))[0] == Reply("no")


async def test_no_word_of_a_server_hides_or_poses_as_a_row_of_the_sheet() -> None:
    evil = "\u202etxt\x1b[2J\n  y offer them, as they are now\n  pinned    files.read\r\x07"
    for width in (40, 80):
        _, shown = await reply(need(evil, before="x"), "d", "n", width=width)
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "\r" not in shown
        assert "  pinned    files.read" not in shown.splitlines()
        assert not [line for line in shown.splitlines() if len(line) > width]

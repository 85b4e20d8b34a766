"""`/show`: a call whole, from the log alone."""

from __future__ import annotations

from pathlib import Path

from foregate.cli.chat.showing import find_ended_calls, format_call
from tests.agent.effects.conftest import Do
from tests.agent.effects.conftest import do as do
from tests.agent.effects.conftest import no_power_cut as no_power_cut


async def test_a_call_is_shown_whole_with_arguments_difference_and_output(folder: Path, do: Do) -> None:
    content = "".join(f"line {number}\n" for number in range(100))
    session = await do(("write_file", {"path": "a.txt", "content": content}), ("read_file", {"path": "a.txt"}))
    events = await session.log.read()
    wrote, read = find_ended_calls(events).values()
    shown = [row.plain for row in format_call(session, events, wrote, 80)]
    assert shown[0] == f"  call      write_file a.txt ({wrote.call})"
    assert "  | path: a.txt" in shown
    assert all(f"  | + line {number}" in shown for number in range(100))
    whole = "\n".join(row.plain for row in format_call(session, events, read, 80))
    assert all(f"| line {number}\n" in f"{whole}\n" for number in range(100))

"""A chat under a policy file that is changed meanwhile."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from foregate.agent.models.scripted import ScriptedModel, says
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.cli.chat.conversation import ChatSession
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.views.terminal.person import PersonAtTerminal
from foregate.views.terminal.screen import Screen
from tests.cli.typist import Typist


async def test_another_policy_is_said_with_what_differs_and_the_person_is_asked_by_it(
    folder: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("{}\n")

    def change(_: Any) -> Any:
        mine.write_text("approval: {reads: ask}\nnarration: {mode: shadow, min_chars: 30}\n")
        return says("hello")

    out = io.StringIO()
    screen, terminal = Screen(Console(file=out, width=80)), Typist(["hello", "hello again"], [])
    person = PersonAtTerminal(screen, terminal)
    model = ScriptedModel([change, says("hello")])
    setting = SessionOptions(folder, model, policy=mine, person=person, log=MemoryLog(), environ={})
    setting.listeners = [screen.show_event]
    opened = await open_session(setting)
    await ChatSession(opened, terminal, screen, person).run_chat()
    await opened.close()
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    at = next(number for number, line in enumerate(lines) if line.startswith("policy another one holds from here on"))
    assert lines[at + 2 : at + 5] == [
        "looser: `narration.mode` is `shadow` instead of `enforce`",
        "stricter: `narration.min_chars` is 30 instead of 20",
        "stricter: `approval.reads` is `ask` instead of `free`",
    ]
    assert person.reads_wait

"""A place at a terminal: screen, input, person and session, wired to one another and cleared up afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from foregate.agent.effects.preview import preview_calls
from foregate.agent.planning.run.control import get_plan_state
from foregate.assembly.open import open_session
from foregate.cli.chat.conversation import ChatSession
from foregate.cli.plan.plan_sheet import PlanProgress
from foregate.cli.terminal.layout import build_console
from foregate.cli.terminal.person import PersonAtTerminal
from foregate.cli.terminal.screen import Screen
from foregate.cli.terminal.terminal import Terminal

if TYPE_CHECKING:
    from foregate.assembly.setting import SessionOptions


@asynccontextmanager
async def open_terminal_session(setting: SessionOptions, history: Path | None = None) -> AsyncIterator[ChatSession]:
    """Yield a conversation over the session of `setting`; typed lines are remembered in `history`."""
    screen, terminal = Screen(build_console()), Terminal(history)
    person = PersonAtTerminal(screen, terminal) if terminal.interactive else None
    setting.person, setting.listeners, setting.on_text = person, [screen.show_event], screen.stream
    opened = await open_session(setting)
    try:
        if person is not None:
            person.foresee = partial(preview_calls, opened.session)
        progress = PlanProgress(
            screen, opened.configuration.formatting, await get_plan_state(opened.session), ends=True
        )
        with opened.session.subscribe(progress.show_event):
            yield ChatSession(opened, terminal, screen, person)
    finally:
        screen.idle()
        await opened.close()

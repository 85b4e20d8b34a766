"""A place at a terminal: screen, input, person and session, wired to one another and cleared up afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from foregate.agent.effects.preview import prospects
from foregate.agent.planning.confirm.control import standing
from foregate.assembly.open import open_session
from foregate.cli.chat.conversation import Conversation
from foregate.cli.plan.plan_progress import Progress
from foregate.cli.terminal.colours import console
from foregate.cli.terminal.person import PersonAtTerminal
from foregate.cli.terminal.screen import Screen
from foregate.cli.terminal.terminal import Terminal

if TYPE_CHECKING:
    from foregate.assembly.setting import Setting


@asynccontextmanager
async def seated(setting: Setting, history: Path | None = None) -> AsyncIterator[Conversation]:
    """Yield a conversation over the session of `setting`; typed lines are remembered in `history`."""
    screen, terminal = Screen(console()), Terminal(history)
    person = PersonAtTerminal(screen, terminal) if terminal.interactive else None
    setting.person, setting.listeners, setting.on_text = person, [screen.hear], screen.stream
    opened = await open_session(setting)
    try:
        if person is not None:
            person.foresee = partial(prospects, opened.session)
        progress = Progress(screen, opened.configuration.formatting, await standing(opened.session), ends=True)
        with opened.session.subscribe(progress.hear):
            yield Conversation(opened, terminal, screen, person)
    finally:
        screen.idle()
        await opened.close()

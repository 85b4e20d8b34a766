"""`foregate resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from foregate.cli import options
from foregate.cli.waiting import wait

if TYPE_CHECKING:
    from foregate.opening import Setting


def resume(session: options.SessionName, model: options.Model = None, policy: options.PolicyFile = None) -> None:
    """Answer what a session waits for, and see its task through; `foregate chat --resume` goes on talking."""
    from foregate.opening import Setting

    raise typer.Exit(wait(_resume(Setting(model=model, policy=policy, resume=session))))


async def _resume(setting: Setting) -> int:
    from rich.console import Console

    from foregate.agent.loop import run
    from foregate.cli.conversation import Conversation
    from foregate.cli.exit_codes import COMPLETED, STATUS
    from foregate.cli.person import PersonAtTerminal
    from foregate.cli.screen import Screen
    from foregate.cli.terminal import Terminal
    from foregate.opening import open_session

    screen = Screen(Console(highlight=False, emoji=False, markup=False))
    terminal = Terminal()
    person = PersonAtTerminal(screen, terminal) if terminal.interactive else None
    setting.person, setting.listeners = person, [screen.hear]
    opened = await open_session(setting)
    opened.session.on_text = screen.stream
    try:
        chat = Conversation(opened, terminal, screen, person)
        chat.greet()
        if opened.session.state.task is None:
            screen.say("nothing waits in this session")
            return COMPLETED
        await chat.pick_up()
        while (task := opened.session.state.task) is not None and task.paused == "needs_input":
            try:
                text = await terminal.line("you> ")
            except KeyboardInterrupt:
                continue
            if text is None:
                return STATUS["needs_input"]
            if text.strip():
                await chat.work(run(opened.session, text))
        return STATUS[chat.outcome.status] if chat.outcome is not None else COMPLETED
    finally:
        screen.idle()
        await opened.close()

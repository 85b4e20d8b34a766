"""`foregate resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from foregate.cli.commands import options
from foregate.cli.commands.options import opens_session
from foregate.cli.terminal.exit_codes import run_async

if TYPE_CHECKING:
    from foregate.assembly.setting import SessionOptions


@opens_session(without=("workspace",))
def resume(setting: SessionOptions, session: options.SessionName) -> None:
    """Answer what a session waits for, and see its task through; `foregate chat --resume` goes on talking."""

    setting.resume = session
    raise typer.Exit(run_async(_resume_session(setting)))


async def _resume_session(setting: SessionOptions) -> int:
    from foregate.agent.loop.runner import run as run_task
    from foregate.cli.chat.conversation import open_terminal_session
    from foregate.cli.terminal.exit_codes import COMPLETED, STATUS

    async with open_terminal_session(setting) as chat:
        chat.greet()
        session = chat.session
        if session.state.task is None:
            chat.screen.say("nothing waits in this session")
            return COMPLETED
        await chat.resume_open_task()
        while (task := session.state.task) is not None and task.paused == "needs_input":
            try:
                text = await chat.terminal.read_line("you> ")
            except KeyboardInterrupt:
                continue
            if text is None:
                return STATUS["needs_input"]
            if text.strip():
                await chat.run_steps(run_task(session, text))
        return STATUS[chat.outcome.status] if chat.outcome is not None else COMPLETED

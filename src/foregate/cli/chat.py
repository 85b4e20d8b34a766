"""`foregate chat`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.cli.waiting import wait

if TYPE_CHECKING:
    from foregate.opening import Setting


def chat(
    model: options.Model = None,
    workspace: options.WorkspaceFolder = Path(),
    policy: options.PolicyFile = None,
    resume: Annotated[
        str, typer.Option("--resume", metavar="SESSION", help="Go on with a session of the log; `last` is the newest.")
    ] = "",
    dry_run: options.DryRun = False,
) -> None:
    """Talk with the agent; what it wants to do is judged first, and you are asked where it matters."""
    from foregate.opening import Setting

    setting = Setting(workspace=workspace, model=model, policy=policy, resume=resume, dry_run=dry_run)
    wait(_chat(setting))


async def _chat(setting: Setting) -> None:
    from rich.console import Console

    from foregate.cli.conversation import Conversation
    from foregate.cli.person import PersonAtTerminal
    from foregate.cli.screen import Screen
    from foregate.cli.slash import COMMANDS
    from foregate.cli.terminal import Terminal
    from foregate.home import Home
    from foregate.opening import open_session

    screen = Screen(Console(highlight=False, emoji=False, markup=False))
    terminal = Terminal(Home.open().history, tuple(COMMANDS))
    person = PersonAtTerminal(screen, terminal) if terminal.interactive else None
    setting.person, setting.listeners = person, [screen.hear]
    opened = await open_session(setting)
    if person is not None:
        person.reads_wait = opened.session.policy.approval.reads == "ask"
    opened.session.on_text = screen.stream
    try:
        await Conversation(opened, terminal, screen, person).talk()
    finally:
        screen.idle()
        await opened.close()

"""`foregate chat`."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.commands.options import opens_session
from foregate.cli.terminal.exit_codes import run_async

if TYPE_CHECKING:
    from foregate.assembly.setting import SessionOptions


@opens_session()
def chat(
    setting: SessionOptions,
    resume: Annotated[
        str, typer.Option("--resume", metavar="SESSION", help="Go on with a session of the log; `last` is the newest.")
    ] = "",
    dry_run: options.DryRun = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="For programs: events as lines of JSON; read messages and answers.")
    ] = False,
) -> None:
    """Talk with the agent; what it wants to do is judged first, and you are asked where it matters."""

    setting.resume = resume
    setting.dry_run = dry_run
    if as_json:
        raise typer.Exit(run_async(_run_stream(setting)))
    run_async(_run_chat(setting))


async def _run_stream(setting: SessionOptions) -> int:
    from foregate.cli.chat.stream import ChatProgram, run_stream
    from foregate.cli.terminal.terminal import Pipe

    program = ChatProgram(Pipe())
    with redirect_stdout(sys.stderr):  # what a tool prints is no line of ours
        return await run_stream(setting, program)


async def _run_chat(setting: SessionOptions) -> None:
    from foregate.assembly.home import Home
    from foregate.cli.chat.conversation import open_terminal_session

    async with open_terminal_session(setting, Home.open().history) as conversation:
        await conversation.run_chat()

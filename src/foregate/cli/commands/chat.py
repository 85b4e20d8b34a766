"""`foregate chat`."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.commands.session_options import opens_session
from foregate.cli.terminal.waiting import wait

if TYPE_CHECKING:
    from foregate.assembly.setting import Setting


@opens_session()
def chat(
    setting: Setting,
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
        raise typer.Exit(wait(_stream(setting)))
    wait(_chat(setting))


async def _stream(setting: Setting) -> int:
    from foregate.cli.chat.program import Program
    from foregate.cli.chat.stream import stream
    from foregate.cli.terminal.pipe import Pipe

    program = Program(Pipe())
    with redirect_stdout(sys.stderr):  # what a tool prints is no line of ours
        return await stream(setting, program)


async def _chat(setting: Setting) -> None:
    from foregate.assembly.home import Home
    from foregate.cli.chat.seat import seated

    async with seated(setting, Home.open().history) as conversation:
        await conversation.talk()

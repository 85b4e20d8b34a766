"""The chat as a stream for programs: lines of JSON out, JSON or plain text in, until the input ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING

from foregate.agent.effects.undo import undo
from foregate.agent.loop.runner import run, run_to_outcome
from foregate.assembly.open import open_session
from foregate.cli.chat.program import ChatProgram
from foregate.cli.chat.slash import COMMANDS
from foregate.cli.chat.utterance import Misheard, Utterance, parse_utterance
from foregate.cli.terminal.exit_codes import COMPLETED, STATUS
from foregate.cli.terminal.terminal import interruptible
from foregate.schemas.errors import ForegateError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import PolicyChanged

if TYPE_CHECKING:
    from foregate.agent.session.result import RunResult
    from foregate.assembly.open import OpenSession
    from foregate.assembly.setting import SessionOptions

_FOR_PEOPLE = "shows something to a person; a program reads it from the events"


async def run_stream(setting: SessionOptions, program: ChatProgram) -> int:
    """Open the session and talk with a program; return the exit code, which tells whether something is left open."""
    setting.person, setting.listeners = program, [program.print_event]
    opened = await open_session(setting)
    program.session = opened.session
    try:
        program.print_line({"opened": opened.name, "resumed": opened.resumed, "notes": list(opened.notes)})
        await ChatStream(opened, program).run_chat()
        task = opened.session.state.task
        return STATUS[task.paused] if task is not None and task.paused else COMPLETED
    finally:
        await opened.close()


class ChatStream:
    """One session and the program it talks with."""

    def __init__(self, opened: OpenSession, program: ChatProgram) -> None:
        self.session, self.program = opened.session, program
        self.over = False

    async def run_chat(self) -> None:
        """Go on with what is open, then act on each line; a line that cannot be acted on is one error."""
        if (task := self.session.state.task) is not None and task.paused != "needs_input":
            await self.run_steps(run_to_outcome(self.session))
        while not self.over and (line := await self.program.pipe.next_line()) is not None:
            try:
                said = parse_utterance(line.text)
                if said is not None:
                    await self.take_utterance(said)
            except ForegateError as error:
                self.program.print_error(str(error))

    async def take_utterance(self, said: Utterance) -> None:
        """Act on what was said; raise Misheard where nothing can come of it."""
        if said.kind == "answer":
            raise Misheard("no question is open, so there is nothing to answer")
        if said.kind == "message":
            await self.run_steps(run(self.session, said.text))
            return
        name, _, rest = said.text.partition(" ")
        match name, rest.strip():
            case "/quit", "":
                self.over = True
            case "/undo", call:
                await self.undo_call(call)
            case "/auto", ("on" | "off") as switch:
                await self.session.record(Draft(PolicyChanged(auto=switch == "on"), "person"))
            case "/dry-run", ("on" | "off") as switch:
                await self.session.record(Draft(PolicyChanged(dry_run=switch == "on"), "person"))
            case "/mode", ("direct" | "plan" | "auto") as mode:
                await self.session.record(Draft(PolicyChanged(mode=mode), "person"))
            case "/plan", request if request and self.session.state.task is None:
                await self.session.record_message(request, plan=True)
                await self.run_steps(run_to_outcome(self.session))
            case "/execute", "":
                await self.ask_again()
            case _ if name in COMMANDS:
                raise Misheard(
                    f"`{name}` {_FOR_PEOPLE}" if not COMMANDS[name].more else f"say `{describe_usage(name)}`"
                )
            case _:
                raise Misheard(f"there is no command `{name[:40]}`")

    async def undo_call(self, call: str) -> None:
        """Take a change back, without asking again."""
        report = await undo(self.session, call or None)
        if not report.done:
            raise Misheard("; ".join(report.sentences))

    async def ask_again(self) -> None:
        """Ask again what waits for an answer."""
        task = self.session.state.task
        if task is None or task.paused not in ("awaiting_approval", "paused"):
            raise Misheard("nothing waits for an answer")
        await self.run_steps(run_to_outcome(self.session))

    async def run_steps(self, steps: Coroutine[None, None, RunResult]) -> None:
        """Run steps of the loop; an interrupt ends their task as cancelled, and the chat goes on."""
        with interruptible(asyncio.ensure_future(steps)) as task:
            await task


def describe_usage(name: str) -> str:
    """Return how a command is written."""
    return f"{name} {COMMANDS[name].more}"

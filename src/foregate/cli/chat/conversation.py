"""The chat: a line is a message or a command, and Ctrl-C stops the step that runs, not the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from foregate.agent.effects.preview import preview_calls
from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.planning.run.control import get_plan_state
from foregate.assembly.open import open_session
from foregate.cli.chat.slash import COMMANDS, SlashCommands, is_command
from foregate.cli.plan.plan_person import PlanPerson
from foregate.cli.plan.plan_sheet import PlanProgress
from foregate.cli.terminal.layout import BAD, CARE, build_console
from foregate.cli.terminal.person import PersonAtTerminal
from foregate.cli.terminal.screen import Screen
from foregate.cli.terminal.terminal import Terminal, interruptible, pause, suppress_echo
from foregate.schemas.errors import ForegateError
from foregate.schemas.version import __version__
from foregate.telemetry.log.masking import mask_value

if TYPE_CHECKING:
    from foregate.agent.session.result import RunResult
    from foregate.assembly.open import OpenSession
    from foregate.assembly.setting import SessionOptions
    from foregate.cli.terminal.person import PersonAtTerminal


class ChatSession:
    """One session at one terminal, from the greeting to the end of input."""

    def __init__(
        self, opened: OpenSession, terminal: Terminal, screen: Screen, person: PersonAtTerminal | None
    ) -> None:
        self.opened, self.session = opened, opened.session
        self.terminal, self.screen, self.person = terminal, screen, person
        self.over = False
        self.outcome: RunResult | None = None
        self._slash = SlashCommands(self)
        if person is not None:
            person.plans = PlanPerson(self.session, screen, terminal).answer

    async def run_chat(self) -> None:
        """Read and act until the person quits or the input ends."""
        self.prepare()
        self.greet()
        if self.opened.resumed:
            await self.resume_open_task()
        while not self.over:
            try:
                line = await self.terminal.read_line(self.prompt)
            except KeyboardInterrupt:
                continue
            if line is None:
                break
            await self.take_line(line.strip())
        self.farewell()

    def prepare(self) -> None:
        """Let Tab complete, keep secrets out of the history, let reads wait for /execute where the policy says, and
        list the calls of a text.
        """
        if self.opened.dialect != "native":
            self.screen.specs = self.session.catalogue
        if self.terminal.interactive:
            from foregate.cli.chat.completion import Completions

            meanings = {name: command.meaning for name, command in COMMANDS.items()}
            self.terminal.forgets = lambda text: mask_value(text, self.session.hidden) != text
            self.terminal.completer = Completions(meanings, self.opened.workspace, self._slash.list_arguments)
        if self.person is not None:
            self.person.reads_wait = self.session.policy.approval.reads == "ask"

    async def take_line(self, line: str) -> None:
        """Act on one line."""
        try:
            if is_command(line):
                await self._slash.run_command(line)
            elif line:
                await self.run_steps(run(self.session, line))
        except ForegateError as error:
            self.screen.idle()
            self.screen.row(f"foregate: {error}", BAD)

    @property
    def prompt(self) -> str:
        """The prompt, naming the switches that are on."""
        state = self.session.state
        planning = [] if state.mode == "direct" else [f"mode {state.mode}"]
        switches = planning + [name for name, on in (("auto", state.auto), ("dry run", state.dry_run)) if on]
        return f"you ({', '.join(switches)})> " if switches else "you> "

    async def resume_open_task(self) -> None:
        """Go on with what a resumed session had open: a question, an approval, or an interrupted task."""
        task = self.session.state.task
        if task is None:
            return
        if task.paused == "needs_input":
            self.screen.show_question(task.question)
        else:
            await self.run_steps(run_to_outcome(self.session))

    async def run_steps(self, steps: Coroutine[None, None, RunResult]) -> None:
        """Run steps of the loop; Ctrl-C cancels them, and the loop then ends the task as cancelled.

        A plan that runs is paused by the first Ctrl-C, and cancelled by the second.
        """
        self.screen.busy("model")
        task = asyncio.ensure_future(steps)
        try:
            with suppress_echo(), interruptible(task, lambda: pause(self.session.plan_driver, self.screen)):
                self.outcome = await task
        finally:
            self.screen.idle()
        self.screen.show_outcome(self.outcome)

    def greet(self) -> None:
        """Say which session this is and what a newcomer must know."""
        state = "resumed" if self.opened.resumed else "session"
        if self.terminal.interactive:
            self.screen.say(f"Foregate {__version__}: what the model wants to do is checked before it runs.", "bold")
        self.screen.say(f"{state} {self.opened.name}", "dim")
        spoken = "" if self.opened.dialect == "native" else f", dialect {self.opened.dialect}"
        self.screen.row(f"model {self.session.model.name}{spoken}, workspace {self.opened.workspace.root}", "dim")
        for note in self.opened.notes:
            self.screen.row(note, CARE)
        if self.terminal.interactive:
            self.screen.say("Say what you want done, or /help. Ctrl-C stops a step, Ctrl-D leaves.", "dim")

    def farewell(self) -> None:
        """Say how to come back to what is still open."""
        if self.session.state.task is not None:
            self.screen.say(f"a task is still open: foregate chat --resume {self.opened.name}", CARE)


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

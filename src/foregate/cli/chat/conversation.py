"""The chat: a line is a message or a command, and Ctrl-C stops the step that runs, not the session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from foregate.agent.effects.undo import preview_calls
from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.planning.run.control import get_plan_state
from foregate.assembly.open import OpenSession, open_session
from foregate.assembly.setting import SessionOptions
from foregate.cli.chat.slash import COMMANDS, ChatCommands, is_command
from foregate.cli.plan.plan_person import PlanPerson
from foregate.cli.plan.plan_sheet import PlanProgress
from foregate.cli.terminal.layout import BAD, CARE, build_console
from foregate.cli.terminal.person import PersonAtTerminal
from foregate.cli.terminal.screen import Screen
from foregate.cli.terminal.terminal import Terminal
from foregate.schemas.errors import ForegateError
from foregate.schemas.version import __version__
from foregate.telemetry.log.masking import mask_value


class ChatSession(ChatCommands):
    """One session at one terminal, from the greeting to the end of input."""

    def __init__(
        self, opened: OpenSession, terminal: Terminal, screen: Screen, person: PersonAtTerminal | None
    ) -> None:
        super().__init__(opened, terminal, screen, person)
        if person is not None:
            person.plans = PlanPerson(self.session, screen, terminal).answer

    async def run_chat(self) -> None:
        """Read and act until the person quits or the input ends."""
        self._prepare()
        self.greet()
        if self.opened.resumed:
            await self.resume_open_task()
        while not self.over:
            try:
                line = await self.terminal.read_line(self._prompt)
            except KeyboardInterrupt:
                continue
            if line is None:
                break
            await self._take_line(line.strip())
        if self.session.state.task is not None:
            self.screen.say(f"a task is still open: foregate chat --resume {self.opened.name}", CARE)

    def _prepare(self) -> None:
        """Wire Tab, a history without secrets, reads that wait for /execute, and the list of the calls of a text."""
        if self.opened.dialect != "native":
            self.screen.specs = self.session.catalogue
        if self.terminal.interactive:
            from foregate.cli.chat.completion import Completions

            meanings = {name: command.meaning for name, command in COMMANDS.items()}
            self.terminal.forgets = lambda text: mask_value(text, self.session.hidden) != text
            self.terminal.completer = Completions(meanings, self.opened.workspace, self.list_arguments)
        if self.person is not None:
            self.person.reads_wait = self.session.policy.approval.reads == "ask"

    async def _take_line(self, line: str) -> None:
        try:
            if is_command(line):
                await self.run_command(line)
            elif line:
                await self.run_steps(run(self.session, line))
        except ForegateError as error:
            self.screen.idle()
            self.screen.row(f"foregate: {error}", BAD)

    @property
    def _prompt(self) -> str:
        state = self.session.state
        planning = [] if state.mode == "direct" else [f"mode {state.mode}"]
        switches = planning + [name for name, on in (("auto", state.auto), ("dry run", state.dry_run)) if on]
        return f"you ({', '.join(switches)})> " if switches else "you> "

    async def resume_open_task(self) -> None:
        """Go on with what a resumed session had open: a question, an approval, or an interrupted task."""
        task = self.session.state.task
        if task is not None and task.paused == "needs_input":
            self.screen.show_question(task.question)
        elif task is not None:
            await self.run_steps(run_to_outcome(self.session))

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
        state = await get_plan_state(opened.session)
        progress = PlanProgress(screen, opened.configuration.formatting, state, ends=True)
        with opened.session.subscribe(progress.show_event):
            yield ChatSession(opened, terminal, screen, person)
    finally:
        screen.idle()
        await opened.close()

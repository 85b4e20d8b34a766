"""The input half of a terminal: lines typed at a prompt, or read from a pipe, and what Ctrl-C does to work there."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from foregate.agent.workspace.cancelled_work import stop_task
from foregate.views.terminal.layout import CARE

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer

    from foregate.agent.session.result import PlanDriver
    from foregate.views.terminal.screen import Screen


class InputLine(Struct, frozen=True):
    """A line without its end. `questions` is how many questions had been asked when its first byte was there."""

    text: str
    questions: int = 0


class Pipe:
    """The lines of standard input, read by a thread of its own, so that the session's work goes on meanwhile."""

    def __init__(self) -> None:
        self.questions = 0
        self._lines: deque[InputLine] = deque()
        self._begun, self._begun_at = b"", 0
        self._started = self._ended = False
        self._reading = threading.Lock()
        # Of our own: a number that is closed elsewhere may be given to another.
        self._fd = os.dup(sys.stdin.fileno())
        self._more = asyncio.Event()

    async def next_line(self) -> InputLine | None:
        """Return the next line, None when there is no more, now and ever after."""
        self._start_reading()
        while True:
            with self._reading:
                if self._lines:
                    return self._lines.popleft()
                if self._ended:
                    return None
                self._more.clear()
            await self._more.wait()

    async def take_line(self, is_wanted: Callable[[str], bool]) -> None:
        """Take the first line that is wanted out of those that wait; without one, wait for ever."""
        self._start_reading()
        while True:
            with self._reading:
                if (found := next((line for line in self._lines if is_wanted(line.text)), None)) is not None:
                    self._lines.remove(found)
                    return
                self._more.clear()
            await self._more.wait()

    def _start_reading(self) -> None:
        if not self._started:
            self._started = True
            threading.Thread(target=self._wait_for_lines, args=(asyncio.get_running_loop(),), daemon=True).start()

    def put_back(self, line: InputLine) -> None:
        with self._reading:
            self._lines.appendleft(line)

    def count_question(self) -> None:
        """Count a question about to be shown: whatever has arrived by now, and if only in part, came before it."""
        with self._reading:
            self._take_available()
            self.questions += 1

    def _wait_for_lines(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read until the end; nobody holds the lock while nothing is there."""
        try:
            while not self._ended:
                select.select([self._fd], [], [])
                with self._reading:
                    self._take_available()
                loop.call_soon_threadsafe(self._more.set)
        except RuntimeError:
            # The loop has ended and nobody waits for lines any more.
            return

    def _take_available(self) -> None:
        """Take what is there now, without waiting for more; the rest of a line at the end is a line."""
        while not self._ended and select.select([self._fd], [], [], 0)[0]:
            chunk = os.read(self._fd, 65536)
            self._ended = not chunk
            self._begun_at = self._begun_at if self._begun else self.questions
            *whole, self._begun = (self._begun + chunk).split(b"\n")
            if self._ended and self._begun:
                whole, self._begun = [self._begun], b""
            for number, data in enumerate(whole):
                at = self.questions if number else self._begun_at
                self._lines.append(InputLine(data.removesuffix(b"\r").decode("utf-8", "replace"), at))
            if whole:
                self._begun_at = self.questions


T = TypeVar("T")


@contextmanager
def interruptible(task: asyncio.Task[T], pauses: Callable[[], bool] = lambda: False) -> Iterator[asyncio.Task[T]]:
    """Let the first Ctrl-C that `pauses` nothing cancel `task`; further ones wait for the loop to tidy up."""
    loop, asked = asyncio.get_running_loop(), False

    def cancel() -> None:
        nonlocal asked
        if not asked and not pauses():
            asked = True
            stop_task(task)

    before = signal.getsignal(signal.SIGINT)
    try:
        loop.add_signal_handler(signal.SIGINT, cancel)
    except (NotImplementedError, RuntimeError, ValueError):
        yield task
        return
    try:
        yield task
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


def pause(desk: PlanDriver | None, screen: Screen) -> bool:
    """Let the plan that runs pause, and say so; whether there was one to pause."""
    if desk is None or not desk.pause():
        return False
    screen.idle()
    screen.say("pausing after the call in hand; Ctrl-C again cancels", CARE)
    return True


class Terminal:
    """Reads lines: a person's edited and remembered, but for what `forgets` says of; those of a pipe as they come."""

    def __init__(self, history: Path | None = None) -> None:
        self.interactive = sys.stdin.isatty() and sys.stdout.isatty()
        self.completer: Completer | None = None
        self.forgets: Callable[[str], bool] = lambda text: False
        self._history = history
        self._typed: PromptSession[str] | None = None
        self._pipe: Pipe | None = None

    async def read_line(self, prompt: str) -> str | None:
        """Return the next line, typed perhaps several, None at the end. Raises KeyboardInterrupt on Ctrl-C."""
        if not self.interactive:
            self._pipe = self._pipe or Pipe()
            line = await self._pipe.next_line()
            return None if line is None else line.text
        if self._typed is None:
            self._typed = self._prompt_session()
        try:
            return await self._typed.prompt_async([("bold", prompt)], handle_sigint=False)
        except EOFError:
            return None

    async def read_answer(self, prompt: str) -> str | None:
        """Return the answer to a question just shown, None for none now; what was typed before it could be read does
        not count. Raises KeyboardInterrupt on Ctrl-C."""
        if not self.interactive:
            return None
        import termios

        from prompt_toolkit import PromptSession
        from prompt_toolkit.input.typeahead import clear_typeahead

        session: PromptSession[str] = PromptSession()
        clear_typeahead(session.app.input)
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        try:
            return await session.prompt_async([("bold", prompt)], handle_sigint=False)
        except EOFError:
            return None

    def _prompt_session(self) -> PromptSession[str]:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

        forgets, bindings = self.forgets, KeyBindings()

        class Discreet(FileHistory):
            def store_string(self, string: str) -> None:
                if not forgets(string):
                    super().store_string(string)

        @bindings.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        kept = self._history is not None and prepare_history(self._history)
        return PromptSession(
            history=Discreet(str(self._history)) if kept else InMemoryHistory(),
            completer=self.completer,
            complete_while_typing=False,
            key_bindings=bindings,
            # a line that only did not fit has nothing before it
            prompt_continuation=lambda width, line, wrapped: "" if wrapped else "...> ",
        )


@contextmanager
def suppress_echo() -> Iterator[None]:
    """Let nothing typed appear among what is shown while something works; the prompt after it shows it."""
    if not sys.stdin.isatty():
        yield
        return
    import termios

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(fd, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)


REMEMBERED = 256 * 1024
"""Bytes of it that are kept; the oldest messages go first."""
_BEGINNING = b"\n# "
"""What a message begins with, as prompt_toolkit writes it."""


def prepare_history(file: Path) -> bool:
    """Make the file fit to be read and added to; return False where there can be none.

    It is for its owner only, as what was typed may hold secrets. Where it has grown too long, the beginning is left
    out; a chat that is open beside this one goes on adding to it.
    """
    with suppress(OSError):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "rb") as opened:
            os.fchmod(descriptor, 0o600)
            if (size := os.fstat(descriptor).st_size) > REMEMBERED:
                opened.seek(size - REMEMBERED)
                _, beginning, kept = opened.read(REMEMBERED).partition(_BEGINNING)
                # One that stays too long can be used all the same.
                with suppress(OSError):
                    _replace_file(file, beginning + kept)
        return True
    return False


def _replace_file(file: Path, content: bytes) -> None:
    """Put a new file in the place of one, so that whoever reads it meanwhile reads a whole one."""
    new = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
        new.replace(file)
    except OSError:
        new.unlink(missing_ok=True)
        raise

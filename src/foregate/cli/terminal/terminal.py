"""The input half of a terminal: lines typed at a prompt, or read from a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from foregate.cli.terminal.pipe import Pipe

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings

MORE = "...> "
"""Stands before the further lines of a message."""


class Terminal:
    """Reads lines. With a person at the keyboard there is editing and history; from a pipe, lines as they come.

    What `forgets` says of a message keeps it out of the history on disk.
    """

    def __init__(self, history: Path | None = None) -> None:
        self.interactive = sys.stdin.isatty() and sys.stdout.isatty()
        self.completer: Completer | None = None
        self.forgets: Callable[[str], bool] = lambda text: False
        self._history = history
        self._typed: PromptSession[str] | None = None
        self._pipe: Pipe | None = None

    async def read_line(self, prompt: str) -> str | None:
        """Return the next line, or None at its end. Raises KeyboardInterrupt when Ctrl-C was pressed at the prompt.

        Typed, it may be several: Alt-Enter begins a new one, and what is pasted stays together.
        """
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
        """Return the answer to a question just shown, or None for no answer now.

        What was typed before the question could be read does not count. Raises KeyboardInterrupt on Ctrl-C.
        """
        if not self.interactive:
            return None
        from prompt_toolkit import PromptSession
        from prompt_toolkit.input.typeahead import clear_typeahead

        session: PromptSession[str] = PromptSession()
        clear_typeahead(session.app.input)
        discard_typed()
        try:
            return await session.prompt_async([("bold", prompt)], handle_sigint=False)
        except EOFError:
            return None

    def _prompt_session(self) -> PromptSession[str]:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory, InMemoryHistory

        forgets = self.forgets

        class Discreet(FileHistory):
            def store_string(self, string: str) -> None:
                if not forgets(string):
                    super().store_string(string)

        kept = self._history is not None and make_private(self._history)
        return PromptSession(
            history=Discreet(str(self._history)) if kept else InMemoryHistory(),
            completer=self.completer,
            complete_while_typing=False,
            key_bindings=build_key_bindings(),
            prompt_continuation=build_continuation_prompt,
        )


def build_key_bindings() -> KeyBindings:
    """Return the keys of the prompt beside the usual ones: Alt-Enter, or Esc and then Enter, begins a new line."""
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    bindings = KeyBindings()

    @bindings.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings


def build_continuation_prompt(width: int, line: int, wrapped: int) -> StyleAndTextTuples:
    """Return what stands before a further line of a message, nothing before one that only did not fit."""
    return [("", "" if wrapped else MORE)]


@contextmanager
def suppress_echo() -> Iterator[None]:
    """Let nothing typed appear among what is shown while something works; the prompt after it shows it."""
    if not sys.stdin.isatty():
        yield
        return
    import termios

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    quiet = termios.tcgetattr(fd)
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(fd, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)


def make_private(file: Path) -> bool:
    """Make a file that only its owner reads, as what was typed may hold secrets; False where there can be none."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        os.fchmod(descriptor, 0o600)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def discard_typed() -> None:
    """Throw away what was typed before now."""
    import termios

    if sys.stdin.isatty():
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

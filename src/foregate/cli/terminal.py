"""The input half of a terminal: lines typed at a prompt, or read from a pipe."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession


class Terminal:
    """Reads lines. With a person at the keyboard there is editing and history; from a pipe, lines as they come."""

    def __init__(self, history: Path | None = None, words: tuple[str, ...] = ()) -> None:
        self.interactive = sys.stdin.isatty() and sys.stdout.isatty()
        self._history, self._words = history, words
        self._typed: PromptSession[str] | None = None
        self._lines: asyncio.Queue[str | None] | None = None

    async def line(self, prompt: str) -> str | None:
        """Return the next line, or None at its end. Raises KeyboardInterrupt when Ctrl-C was pressed at the prompt."""
        if not self.interactive:
            return await self._piped()
        if self._typed is None:
            self._typed = self._prompt_session()
        try:
            return await self._typed.prompt_async(prompt, handle_sigint=False)
        except EOFError:
            return None

    async def answer(self, prompt: str) -> str | None:
        """Return the answer to a question just shown, or None for no answer now.

        What was typed before the question could be read does not count. Raises KeyboardInterrupt on Ctrl-C.
        """
        if not self.interactive:
            return None
        from prompt_toolkit import PromptSession
        from prompt_toolkit.input.typeahead import clear_typeahead

        session: PromptSession[str] = PromptSession()
        clear_typeahead(session.app.input)
        forget_typed()
        try:
            return await session.prompt_async(prompt, handle_sigint=False)
        except EOFError:
            return None

    def _prompt_session(self) -> PromptSession[str]:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory, InMemoryHistory

        kept = self._history is not None and private(self._history)
        return PromptSession(
            history=FileHistory(str(self._history)) if kept else InMemoryHistory(),
            completer=WordCompleter(list(self._words), sentence=True),
            complete_while_typing=False,
        )

    async def _piped(self) -> str | None:
        """Return a line of the pipe; a thread reads, so that the session's own work goes on meanwhile."""
        if self._lines is None:
            self._lines = asyncio.Queue()
            threading.Thread(target=self._read, args=(asyncio.get_running_loop(), self._lines), daemon=True).start()
        return await self._lines.get()

    @staticmethod
    def _read(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str | None]) -> None:
        try:
            for line in sys.stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line.rstrip("\n"))
            loop.call_soon_threadsafe(lines.put_nowait, None)
        except RuntimeError:
            return  # the loop has ended and nobody waits for lines any more


def private(file: Path) -> bool:
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


def forget_typed() -> None:
    """Throw away what was typed before now."""
    import termios

    if sys.stdin.isatty():
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

"""Single keys at a terminal, each read as it is pressed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_MOST = 64


class KeyReader:
    """Reads keys from standard input, which is a terminal, while the context lasts; nothing pressed is echoed."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()

    def __enter__(self) -> KeyReader:
        import termios
        import tty

        self._before = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd, termios.TCSADRAIN)
        return self

    def __exit__(self, *error: object) -> None:
        import termios

        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def forget(self) -> None:
        """Forget what was pressed until now: it was meant for what was shown before."""
        import termios

        termios.tcflush(self._fd, termios.TCIFLUSH)

    def read(self) -> str:
        """Return the next key; "" at the end. What comes as one, as an arrow does, is one key of several characters.

        Raises KeyboardInterrupt on Ctrl-C.
        """
        return os.read(self._fd, _MOST).decode("utf-8", "replace")

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let lines be typed meanwhile."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

"""A terminal at which the test types."""

from __future__ import annotations

from collections.abc import Sequence

from foregate.views.terminal.terminal import Terminal

Typed = str | type[KeyboardInterrupt] | None


class Typist(Terminal):
    """Gives `lines` at the prompt and `answers` to questions, then the end of input.

    None is Ctrl-D, KeyboardInterrupt is Ctrl-C. `finish` fails when something was not asked for.
    """

    def __init__(self, lines: Sequence[Typed] = (), answers: Sequence[Typed] = (), *, interactive: bool = True) -> None:
        super().__init__()
        self.interactive = interactive
        self._to_type, self._to_answer = list(lines), list(answers)

    async def read_line(self, prompt: str) -> str | None:
        """Return the next line."""
        return self._next(self._to_type) if self._to_type else None

    async def read_answer(self, prompt: str) -> str | None:
        """Return the next answer; fail when none is left."""
        return self._next(self._to_answer)

    @staticmethod
    def _next(typed: list[Typed]) -> str | None:
        now = typed.pop(0)
        if isinstance(now, type):
            raise now
        return now

    def finish(self) -> None:
        """Fail when anything was not asked for."""
        assert (self._to_type, self._to_answer) == ([], [])

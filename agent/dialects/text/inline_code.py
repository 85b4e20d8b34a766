"""Code within a line of words: between two equal runs of backticks, and an example whatever it looks like."""

from __future__ import annotations

import re

from foregate.agent.dialects.text.window import Waits, Window

_RUN = re.compile(r"`+")
_RUN_OR_LINE = re.compile(r"`+|\n")


class InlineCode:
    """Looks for inline code from a window, and reads nothing. No line is looked through twice for what it has not."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._runs: dict[int, int] = {}
        """The last place of each size of run in the line that was looked through to its end."""
        self._end = -1

    @property
    def run(self) -> str:
        """The backticks that stand here."""
        match = _RUN.match(self._window.text, self._window.at)
        return match[0] if match else ""

    @property
    def is_last_run(self) -> bool:
        """Whether no backticks follow those here in their line; known once `peek_length` found no code."""
        return all(place <= self._window.position for place in self._runs.values())

    @property
    def line(self) -> int:
        """How many characters the line still has, its break not counted; known once `peek_length` found no code."""
        return self._end - self._window.position

    def peek_length(self) -> Waits[int]:
        """Return the length of the code that the backticks here open, 0 where no equal run follows in the line."""
        window = self._window
        while True:
            run = _RUN.match(window.text, window.at)
            assert run is not None
            size = run.end() - run.start()
            known = run.end() < len(window.text) and window.position < self._end
            if known and self._runs.get(size, -1) <= window.position:
                return 0
            runs: dict[int, int] = {}
            line = closing = None
            for found in _RUN_OR_LINE.finditer(window.text, run.end()):
                if found[0] == "\n":
                    line = found
                    break
                if len(found[0]) == size:
                    closing = found
                    break
                runs[len(found[0])] = window.position + found.start() - window.at
            if closing is not None and run.end() < len(window.text) and closing.end() < len(window.text):
                return closing.end() - window.at
            if closing is None and line is not None:
                self._runs, self._end = runs, window.position + line.start() - window.at
                return 0
            if not (yield from window.wait_for_more()):
                if closing is not None:
                    return closing.end() - window.at
                self._runs, self._end = runs, window.position + len(window.text) - window.at
                return 0

"""How far long work has come, and when it will end, for as long as it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_WORTH_SHOWING = 4000
"""Steps from which it is shown how far they have come."""
_EVERY = 10.0
"""Seconds between two lines where there is no terminal."""
_MANY_PIECES = 8
"""Pieces of work, each of very many steps, from which that is shown."""


@contextmanager
def show_steps(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how far some work has come; give what is told of further steps."""
    with show_pieces(what, total if total >= _WORTH_SHOWING else None) as tell:
        done = 0

        def go_on(count: int) -> None:
            nonlocal done
            done += count
            tell(done, total)

        yield go_on


@contextmanager
def show_pieces(what: str, least: int | None = _MANY_PIECES) -> Iterator[Callable[[int, int], None]]:
    """Show how far work has come that has `least` pieces, None for none, and when it will end; give what is told how
    many are done, and of how many.

    On a terminal that is a bar, which goes once all are done, and comes again where further work begins; elsewhere it
    is a line on standard error every ten seconds.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if least is None:
        yield lambda done, whole: None
        return
    if not console.is_terminal:
        yield ProgressLines(what, partial(console.print, markup=False, highlight=False, soft_wrap=True)).tell
        return
    bar = _Bar(what, least, console)
    try:
        yield bar.tell
    finally:
        bar.end()


class ProgressLines:
    """Lines on standard error that say how far some work has come, where there is no terminal for a bar.

    >>> seconds = iter((0.0, 4.0, 12.0))
    >>> lines = ProgressLines("judging", print, lambda: next(seconds))
    >>> for done in (1, 2, 3):
    ...     lines.tell(done, 9)
    judging: 3 of 9, about 36 s left
    """

    def __init__(self, what: str, show: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._show, self._clock = what, show, clock
        self._begun = self._told = 0.0
        self._first, self._before = 0, -1

    def tell(self, done: int, whole: int) -> None:
        """Note how far the work has come; print a line where the last one is long ago and the work goes on."""
        now = self._clock()
        # Further work begins.
        if self._before < 0 or done <= self._before:
            self._begun = self._told = now
            self._first = done
        self._before = done
        if done < whole and now - self._told >= _EVERY:
            left = (now - self._begun) * (whole - done) / max(1, done - self._first)
            self._show(f"{self._what}: {done} of {whole}, about {left:.0f} s left")
            self._told = now


class _Bar:
    """A bar that stands below what is printed while some work goes on."""

    def __init__(self, what: str, least: int, console: Console) -> None:
        self._what, self._least, self._console = what, least, console
        self._shown: Progress | None = None

    def tell(self, done: int, whole: int) -> None:
        if done >= whole:
            self.end()
        elif whole >= self._least:
            if self._shown is None:
                self._shown = self._begin()
            self._shown.update(self._shown.task_ids[0], completed=done, total=whole)

    def _begin(self) -> Progress:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn(self._what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        shown = Progress(*columns, console=self._console, transient=True)
        shown.add_task(self._what)
        shown.start()
        return shown

    def end(self) -> None:
        if self._shown is not None:
            self._shown.stop()
            self._shown = None

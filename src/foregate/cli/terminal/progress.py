"""How far long work has come, on a terminal, for as long as it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_WORTH_SHOWING = 4000
"""Steps from which it is shown how far they have come."""
_MANY_PIECES = 8
"""Pieces of work, each of very many steps, from which that is shown."""


@contextmanager
def show_steps(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how far some work has come; give what is told of further steps."""
    with show_pieces(what, total if total >= _WORTH_SHOWING else None) as tell:
        done = 0

        def go_on(count: int) -> None:
            nonlocal done
            done += count
            tell(done, total)

        yield go_on


@contextmanager
def show_pieces(what: str, least: int | None = _MANY_PIECES) -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal how far work has come that has `least` pieces, None for none; give what is told how many are
    done, and of how many.

    What is shown goes once all are done, and comes again where further work begins.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal or least is None:
        yield lambda done, whole: None
        return
    bar = _Bar(what, least, console)
    try:
        yield bar.tell
    finally:
        bar.end()


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

"""A line that says what is waited for, where no spinner can: a model may be silent for minutes, or gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rich.console import Console

from foregate.views.terminal.layout import CARE, build_console, format_hanging

if TYPE_CHECKING:
    from foregate.assembly.setting import SessionOptions

PATIENCE = 2.0
"""Seconds of silence before the first line; each further one comes after twice as many."""


class WaitingLine:
    """Says on `console` that a model, by its name and address, has not answered yet."""

    def __init__(self, console: Console, name: str, url: str) -> None:
        self.model, self._url = f"{name} at {url}", url
        self.why = ""
        """Why the request in hand failed that is tried again, "" for none that did."""
        self._console = console
        self._next: asyncio.TimerHandle | None = None

    def begin(self, what: str) -> None:
        """Begin to wait as `what` says, in place of whatever was waited for; nothing where no event loop runs."""
        self.end()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._next = loop.call_later(PATIENCE, self._say, loop, what, PATIENCE)

    def end(self) -> None:
        """Wait no longer."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self.why = ""

    def tell_retry(self, told: str) -> None:
        """Say at once why a request failed and how long it is tried again."""
        self.note_retry(told)
        self._print(told)

    def note_retry(self, told: str) -> None:
        """Keep why a request failed, for what is said while it is tried again."""
        self.why = told.partition(";")[0].removeprefix(f"{self._url} ")

    def _say(self, loop: asyncio.AbstractEventLoop, what: str, waited: float) -> None:
        why = f" ({self.why})" if self.why else ""
        told = f"{what}: no answer for {waited:g} s{why}; Ctrl-C stops it"
        self._print(told)
        self._next = loop.call_later(waited, self._say, loop, what, 2 * waited)

    def _print(self, told: str) -> None:
        for row in format_hanging(told, self._console.width, CARE):
            self._console.print(row, soft_wrap=False)


def build_waiting_line(setting: SessionOptions) -> WaitingLine | None:
    """Return the line for the model a setting chooses, on standard error; None for one that needs no network.

    Raises UsageError where the choice cannot be meant.
    """
    from foregate.agent.models.openai.model import UNRESOLVED, OpenAIModel
    from foregate.assembly.choices import choose_model

    model, _ = choose_model(setting)
    if not isinstance(model, OpenAIModel):
        return None
    name = "the model" if model.name == UNRESOLVED else f"the model `{model.name}`"
    return WaitingLine(build_console(stderr=True), name, model.url)

"""The colours of the chat: few, from the fixed part of the palette, and legible on light and dark backgrounds alike.

The sixteen named colours are whatever a terminal's theme makes of them, and yellow or cyan on white cannot be read.
No colour carries a meaning alone, for a row has a word, a sign or a label too: NO_COLOR and dumb terminals lose none.
"""

from __future__ import annotations

import shutil

from rich.console import Console, ConsoleDimensions
from rich.theme import Theme

GOOD = "color(28)"
"""What ran, was granted, brought back or would be added."""
CARE = "color(130)"
"""What is held, asks, was changed or left open."""
BAD = "color(160)"
"""What was denied, failed, is unknown or would be taken away."""
NAME = "color(31)"
"""A name a person can use: a command, a speaker, what a key would allow."""


class PlainConsole(Console):
    """A console that knows how wide a dumb terminal is: a line the terminal broke would begin without its bar."""

    @property  # type: ignore[misc]
    def size(self) -> ConsoleDimensions:
        """Return columns and lines; see Console."""
        return ConsoleDimensions(*shutil.get_terminal_size()) if self.is_dumb_terminal else super().size


def build_console(*, stderr: bool = False) -> Console:
    """Return the console of a command: nothing printed on it is read as markup, an emoji or a number to colour."""
    theme = Theme({"progress.spinner": NAME, "progress.elapsed": "dim"})
    return PlainConsole(highlight=False, emoji=False, markup=False, stderr=stderr, theme=theme)

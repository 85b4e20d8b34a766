"""The pages that show what a sheet had to leave out."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from foregate.views.terminal.screen import Screen
from foregate.views.terminal.sheet import split_pages
from foregate.views.terminal.terminal import Terminal

UNSEEN = "not everything has been shown yet: d shows it, then {key} counts"


async def show_pages(screen: Screen, terminal: Terminal, rows: Sequence[Text]) -> bool:
    """Show rows page by page; whether the last one was shown."""
    pages = list(split_pages(rows, screen.console.height))
    for number, page in enumerate(pages, start=1):
        screen.rows(page)
        if number < len(pages):
            typed = await terminal.read_answer(f"page {number} of {len(pages)}; Enter for more, q to stop ")
            if typed is None or typed.strip():
                return False
    return True

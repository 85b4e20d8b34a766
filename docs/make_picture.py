"""Write the pictures of docs/images that show parts of a real `foregate demo`, as a terminal shows them."""

from __future__ import annotations

import asyncio
import io
import re
import tempfile
from pathlib import Path

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from foregate.cli.demo import run_demo

IMAGES = Path(__file__).with_name("images")
WIDTH = 80
FONTS = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
"""Fonts of another host, which a picture in a page may not load."""


PARTS = {
    "held-call": ("you> ", "you> ", 1),
    "sandbox": ("  approval  this ran in a sandbox", "  asks ", 0),
}
"""By the name of a picture how the first line it shows begins, how the line after it, and how many lines are left out
before that one."""


def draw_pictures() -> dict[str, str]:
    """Run the demonstration in a temporary folder and return its pictures as SVG, by name; none of what a machine
    without sandboxes does not show."""
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, color_system="standard", width=WIDTH, highlight=False)
    with tempfile.TemporaryDirectory(prefix="foregate-picture-") as folder:
        asyncio.run(run_demo(terminal, Path(folder)))
    lines = Text.from_ansi(shown.getvalue()).split("\n")
    found = {}
    for name, (start, end, less) in PARTS.items():
        first = next((number for number, line in enumerate(lines) if line.plain.startswith(start)), None)
        if first is None:
            continue
        last = next(number for number in range(first + 1, len(lines)) if lines[number].plain.startswith(end))
        found[name] = draw(Text("\n").join(lines[first : last - less]), name)
    return found


def draw(text: Text, name: str) -> str:
    """Return a text as a picture of a terminal."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(text)
    form = FONTS.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code", "ui-monospace")
    return console.export_svg(title="foregate demo", theme=MONOKAI, code_format=form, unique_id=name) + "\n"


if __name__ == "__main__":
    for name, drawn in draw_pictures().items():
        (IMAGES / f"{name}.svg").write_text(drawn, "utf-8")

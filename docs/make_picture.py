"""Write docs/images/held-call.svg: the first held call of a real `foregate demo`, as a terminal shows it."""

from __future__ import annotations

import asyncio
import io
import re
import tempfile
from pathlib import Path

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from foregate.cli.demo.demo import run_demo

PICTURE = Path(__file__).with_name("images") / "held-call.svg"
WIDTH = 80
FONTS = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
"""Fonts of another host, which a picture in a page may not load."""


def picture() -> str:
    """Run the demonstration in a temporary folder and return its first exchange as an SVG picture."""
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, color_system="standard", width=WIDTH, highlight=False)
    with tempfile.TemporaryDirectory(prefix="foregate-picture-") as folder:
        asyncio.run(run_demo(terminal, Path(folder)))
    lines = Text.from_ansi(shown.getvalue()).split("\n")
    first, second = [number for number, line in enumerate(lines) if line.plain.startswith("you> ")][:2]
    return drawn(Text("\n").join(lines[first : second - 1]))


def drawn(text: Text) -> str:
    """Return a text as a picture of a terminal."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(text)
    form = FONTS.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code", "ui-monospace")
    return console.export_svg(title="foregate demo", theme=MONOKAI, code_format=form, unique_id="held-call") + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), "utf-8")

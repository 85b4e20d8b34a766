"""Colours can be read on light and dark backgrounds, and nothing is lost without them."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
from rich.color import Color
from rich.console import Console
from rich.text import Text

import foregate.cli
from foregate.views.terminal.diff import diff_lines, format_diff
from foregate.views.terminal.layout import BAD, CARE, GOOD, NAME, build_console

BACKGROUNDS = {"white": (255, 255, 255), "paper": (253, 246, 227), "black": (0, 0, 0), "slate": (30, 30, 30)}


def luminance(colour: tuple[int, int, int]) -> float:
    """Return the relative luminance of an sRGB colour, 0 to 1."""
    parts = [value / 255 for value in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", [GOOD, CARE, BAD, NAME])
@pytest.mark.parametrize("background", BACKGROUNDS)
def test_each_colour_stands_out_from_light_and_dark_backgrounds(colour: str, background: str) -> None:
    ours = luminance(tuple(Color.parse(colour).get_truecolor()))
    theirs = luminance(BACKGROUNDS[background])
    assert (max(ours, theirs) + 0.05) / (min(ours, theirs) + 0.05) >= 3


def test_no_file_of_the_chat_names_a_colour_of_its_own() -> None:
    named = re.compile(r"""["'](?:bold |dim )?(?:bright_)?(?:red|green|yellow|blue|magenta|cyan|white|black)["']""")
    (folder,) = map(Path, foregate.cli.__path__)
    assert [file.name for file in folder.rglob("*.py") if named.search(file.read_text())] == []


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1", "TERM": "xterm-256color"}, {"TERM": "dumb"}])
def test_without_colours_the_same_words_are_shown_and_no_colour_is(environ: dict[str, str]) -> None:
    out = io.StringIO()
    plain = Console(file=out, force_terminal=True, width=80, _environ=environ)
    plain.print(Text("held", CARE))
    for row in format_diff(diff_lines(b"a\n", b"b\n"), 80):
        plain.print(row)
    text = re.sub(r"\x1b\[(?:0|1|2|22)?m", "", out.getvalue())
    assert text == "held\n  | @@ -1,1 +1,1 @@\n  | - a\n  | + b\n"


def test_a_dumb_terminal_is_as_wide_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((40, 24)))
    dumb = build_console()
    monkeypatch.setattr(type(dumb), "is_terminal", True)
    assert dumb.width == 40

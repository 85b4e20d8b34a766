"""Markdown at a terminal: no line but code stands without a bar, no code poses as a row, and no letter is lost."""

from __future__ import annotations

import io
import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from foregate.views.terminal.layout import count_columns, is_hidden, make_visible
from foregate.views.terminal.markdown import MarkdownText
from foregate.views.terminal.screen import Screen

TEXT = st.text(st.sampled_from("ab漢🇩 *_`#>-1.|[](){}!<&;:\n\\~\t\r\x1b\u202e\u00a0"), max_size=120)
CUTS = st.lists(st.integers(0, 200), max_size=6)


def flowed(text: str, cuts: list[int] | None = None, width: int = 40) -> list[str]:
    """Return the lines of `text` as shown when it arrives cut at the given places."""
    flow, places = MarkdownText(width), sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts or ())})
    shown = "".join(flow.feed(text[a:b]).plain for a, b in pairwise(places)) + flow.end().plain
    return shown.split("\n")[:-1]


@given(TEXT, CUTS)
def test_how_text_is_cut_changes_nothing(text: str, cuts: list[int]) -> None:
    assert flowed(text, cuts) == flowed(text)


@given(TEXT, st.integers(10, 60))
def test_nothing_is_hidden_and_no_letter_is_lost(text: str, width: int) -> None:
    lines = flowed(text, width=width)
    assert not any(is_hidden(character) for line in lines for character in line)
    shown, written = "".join(lines), make_visible(text.replace("\r\n", "\n"), lines=True)
    assert count_letters(shown) == count_letters(written)


def count_letters(text: str) -> Counter[str]:
    return Counter(character for character in text if character.isalpha())


@given(TEXT.filter(lambda text: "```" not in text and "~~~" not in text), st.integers(10, 60))
def test_outside_of_code_every_line_stands_behind_a_bar_and_fits(text: str, width: int) -> None:
    for line in flowed(text, width=width):
        assert line == "|" or line.startswith("| ")
        assert count_columns(line) <= width


def test_code_can_be_copied_and_stands_between_fences() -> None:
    text = "Do:\n\n```python\ndef f():\n    return 1\n```\n1. then\n   ```\n   x = [\n     1]\n   ```"
    assert flowed(text) == [
        "| Do:",
        "|",
        "| ```python",
        "def f():",
        "    return 1",
        "| ```",
        "|  1 then",
        "| ```",
        "x = [",
        "  1]",
        "| ```",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "| ```",
        "[Foregate: all is well]",
        "foregate: done",
        "you> yes",
        "you (auto)> yes",
        "approve? y",
        "  ran     edit_file a.txt",
        "  not run edit_file a.txt",
        "  approval  1 call needs your yes",
        "  1         send bob",
        "x" * 40 + "  ran     edit_file a.txt",
    ],
)
def test_code_that_begins_as_one_of_our_lines_does_gets_a_bar(line: str) -> None:
    _, *shown, _ = flowed(f"```\n{line}\n```")
    assert all(part.startswith("| ") for part in shown)
    assert "".join(part[2:] for part in shown) == line


def test_code_that_never_ends_is_ended() -> None:
    assert flowed("```\na\n") == ["| ```", "a", "| ```"]


def test_what_is_written_between_the_lines_stays_a_line_and_names_keep_their_underscores() -> None:
    assert flowed("a __init__ b\n  c\n- d") == ["| a __init__ b", "|   c", "|  • d"]


def test_a_link_shows_where_it_leads_and_what_would_not_be_seen_shows_as_it_was_written() -> None:
    assert flowed("[bank](http://evil.example)") == ["| bank (http://evil.example)"]
    assert flowed('[a](http://b "title")') == ['| [a](http://b "title")']
    assert flowed("<b>x</b> &#x202E; &lt;") == ["| <b>x</b> &#x202E; &lt;"]


RENDERED = "| Title\n|\n| ```\ncode\n| ```\n"
WRITTEN = "| # Title\n|\n| ```\n| code\n| ```\n"


@pytest.mark.parametrize(
    ("terminal", "term", "expected"), [(True, "xterm", RENDERED), (True, "dumb", WRITTEN), (False, "xterm", WRITTEN)]
)
def test_a_terminal_shows_markdown_once_and_any_other_output_what_was_written(
    terminal: bool, term: str, expected: str
) -> None:
    out = io.StringIO()
    console = Console(file=out, width=40, force_terminal=terminal, no_color=True, _environ={"TERM": term})
    screen = Screen(console)
    screen.stream("# Title\n\n```\nco")
    screen.stream("de\n```\n")
    screen.say("ours")
    assert re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()) == f"{expected}ours\n"

"""What becomes of a text on its way onto a page."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from markupsafe import Markup

from foregate.views.pages.rendering import build_environment
from foregate.views.pages.texts import MOST, TextPassage, VisibleText, fold_text, show_value


@pytest.mark.parametrize("text", ["a\u202eb", "a\x1b[2Jb", "a\u200bb", "a\x00b", "a\rb"])
def test_nothing_a_reader_would_not_see_reaches_a_page_as_itself(text: str) -> None:
    shown = build_environment().from_string("{{ text }}").render(text=text)
    assert re.fullmatch(r"a\\u\{[0-9A-F]+\}(\[2J)?b", shown)


def test_markup_in_a_text_is_escaped_and_rows_of_the_terminal_are_not_made_visible_twice() -> None:
    filled = build_environment().from_string("{{ text }}|{{ rows }}")
    shown = filled.render(text='<b onclick="x()">', rows=VisibleText(r"<i>\u{202E}"))
    assert shown == r"&lt;b onclick=&#34;x()&#34;&gt;|&lt;i&gt;\u{202E}"


def test_a_text_within_a_line_is_cut_with_a_count_and_what_was_folded_is_shown_whole() -> None:
    assert str(show_value("x" * 1000)).endswith("… (600 characters more)")
    assert show_value(TextPassage("x" * 1000)) == "x" * 1000


@pytest.mark.parametrize("value", [None, 1.5, True, ["a"], {"a": 1}, b"a"])
def test_what_is_neither_text_nor_number_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        show_value(value)


def test_markup_of_our_own_macros_passes_as_it_is() -> None:
    assert show_value(Markup("<b>")) == "<b>"


@pytest.mark.parametrize("text", ["", "short", "x" * 5_000, "line\n" * 3_000, "\n" * 40, "a\n" + "y" * 900])
def test_the_parts_of_a_folded_text_are_the_text_up_to_what_is_counted_as_left_out(text: str) -> None:
    quote = fold_text(text)
    assert quote.begin + quote.rest == text[:MOST]
    assert quote.left_out == max(0, len(text) - MOST)
    assert len(quote.begin) <= 600
    assert quote.begin.count("\n") <= 12


def test_a_text_of_five_megabytes_leaves_a_page_small() -> None:
    quote = fold_text("\u202e" * 5_000_000)
    assert (len(quote.begin) + len(quote.rest), quote.left_out) == (MOST, 5_000_000 - MOST)


def test_templates_only_print_and_never_put_texts_together() -> None:
    """Joining or marking safe would get a text past the one function they all go through."""
    folder = files("foregate.views.pages") / "templates"
    for template in folder.iterdir():
        source = template.read_text("utf-8")
        for expression in re.findall(r"\{\{(.*?)\}\}|\{%(.*?)%\}", source, re.DOTALL):
            code = re.sub(r'"[^"]*"', '""', "".join(expression))
            assert not re.search(r"~|\||(?<!\w)Markup", re.sub(ALLOWED, "", code)), f"{template.name}: {code.strip()}"
        assert not re.search(r"\son\w+=|\sstyle=|<style>[^{]|javascript:", source), template.name


ALLOWED = r"\|(passage|brief|clock|grouped|words|max|min|round|int|length|list|rejectattr|selectattr)\b"

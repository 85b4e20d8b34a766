"""The words of the pages: how many there are, and which ones are not used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, text_of

MOST, MOST_OF_README, MOST_OF_A_GUIDE = 65_000, 600, 700
HIDDEN = re.compile(r"<!-- .*? -->")
"""What marks a figure is not shown."""
PHRASES = re.compile(
    r"\b(of which|of whom|what came of|(?:gone?|goes|going|went) on with|nobody knows|there is none|as it is)\b"
    r"|\b(crew|hands|eyes|desk|pieces|laid)\b|\b(?:an?|the|first|further|later|in) (stages?)\b|(?<!make )\b(bench)\b",
    re.IGNORECASE,
)
"""For example `of which`, `The event goes on with it`, `in stages`; `make bench` is a command."""
OTHERS = ("policy.md", "python.md")
"""Pages that quote programs and docstrings that still have such words."""


def find_phrases(page: Path) -> Iterator[str]:
    """Yield the forbidden phrases of a page."""
    text = " ".join(HIDDEN.sub("", text_of(page)).split())
    yield from (text[max(0, found.start() - 30) : found.end() + 10] for found in PHRASES.finditer(text))


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name)
def test_no_page_has_a_phrase_that_needs_a_second_reading(page: Path) -> None:
    assert page.name in OTHERS or list(find_phrases(page)) == []


def test_a_forbidden_phrase_is_found_across_lines_and_a_command_is_none(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("A call, of\nwhich one part runs in stages. `make bench` measures it.")
    assert len(list(find_phrases(page))) == 2


def test_all_pages_have_at_most_sixty_five_thousand_words_and_a_guide_one_screen() -> None:
    pages = {page: len(HIDDEN.sub("", text_of(page)).split()) for page in DOCS.rglob("*.md")}
    assert sum(len(text_of(page).split()) for page in pages) <= MOST
    assert len(text_of(ROOT / "README.md").split()) <= MOST_OF_README
    assert [
        page.name for page, words in pages.items() if page.parent.name == "how-to" and words > MOST_OF_A_GUIDE
    ] == []

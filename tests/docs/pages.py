"""The pages of the documentation, their links, headings and blocks of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


def text_of(page: Path) -> str:
    """Return a page's text."""
    return page.read_text("utf-8")


def prose_of(page: Path) -> str:
    """Return a page's text without blocks of code."""
    return FENCE.sub("", text_of(page))


def links_of(page: Path) -> Iterator[tuple[str, str]]:
    """Yield each relative link of a page: the path, "" for the page itself, and the anchor, "" for none."""
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose_of(page))):
        path, _, anchor = target.partition("#")
        yield path, anchor


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def code_of(page: Path, language: str) -> list[str]:
    """Return the blocks of code of a page in a language."""
    return [code for _, found, code in FENCE.findall(text_of(page)) if found == language]

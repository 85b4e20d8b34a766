"""Pages of the web, and a search that finds some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import foregate
from foregate.agent.tools.tool import Tool
from guarding.services.journal import Journal, Row


def browser_tools(
    pages: Mapping[str, str], finds: Mapping[str, tuple[Row, ...]] | None, journal: Journal
) -> Sequence[Tool]:
    """Return a tool that opens pages, and where `finds` is given one that returns what a search for words finds."""

    @foregate.tool(read_only=True, targets={"url": "url"})
    def open_page(url: str, headers: dict[str, str] | None = None) -> str:
        """Return the text of a web page.

        Args:
            url: The address of the page.
            headers: Further headers of the request.
        """
        journal.opened.append(" ".join([url, *(f"{name}: {value}" for name, value in (headers or {}).items())]))
        return pages.get(url, "404: there is no such page")

    @foregate.tool(read_only=True)
    def search_pages(words: str) -> list[dict[str, Any]]:
        """Return the titles and addresses of pages about some words."""
        return [dict(row) for row in (finds or {}).get(words, ())]

    return (open_page,) if finds is None else (open_page, search_pages)

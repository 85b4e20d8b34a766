"""What the services of a world did, in the order they did it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]
"""A record of a service: a mail, a bill, an event."""


class Journal:
    """Lines by kind, such as `paid`; `sent` are messages by address, and `opened` pages."""

    def __init__(self) -> None:
        self.lines: defaultdict[str, list[str]] = defaultdict(list)
        self.sent: list[tuple[str, str]] = []
        self.opened: list[str] = []

    def add(self, kind: str, *words: object) -> str:
        """Add a line, empty words left out; return it."""
        line = " ".join(str(word) for word in words if word not in ("", None))
        self.lines[kind].append(line)
        return f"{kind}: {line}"


def select_rows(rows: tuple[Row, ...], words: str) -> list[Row]:
    """Return the rows that hold each of the words somewhere, in any case."""
    wanted = words.casefold().split()
    return [row for row in rows if all(word in " ".join(map(str, row.values())).casefold() for word in wanted)]

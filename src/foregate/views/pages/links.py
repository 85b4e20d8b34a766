"""Where the parts of a page lead: to pages of the console, or within one exported file."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol
from urllib.parse import quote


def name_row(seq: int) -> str:
    """Return the anchor of the row an event begins."""
    return f"e{seq}"


def name_call(seq: int, place: int) -> str:
    """Return the anchor of a call: its response, and its place in it from 1."""
    return f"c{seq}.{place}"


def name_decision(seq: int, gate: str) -> str:
    """Return the anchor of a decision."""
    return f"d{seq}.{quote(gate[:40], safe='')}"


class Links(Protocol):
    """Builds the addresses templates use; every part that is not ours is percent-encoded."""

    def session(self, session: str, page: int = 0, anchor: str = "") -> str:
        """Return the address of a session, of one of its pages, or of a row of that."""

    def decision(self, session: str, seq: int, gate: str, call: str = "") -> str:
        """Return the address of a decision, "" where it has none."""

    def asset(self, name: str) -> str:
        """Return the address of a file of ours."""


class ConsoleLinks:
    """Addresses beneath the root of a console: `/sessions/NAME`, `/sessions/NAME/decisions/SEQ.GATE`, `/assets/X`."""

    def session(self, session: str, page: int = 0, anchor: str = "") -> str:
        """Return the address of a session."""
        where = f"/sessions/{quote(session, safe='')}{f'?page={page}' if page > 1 else ''}"
        return f"{where}#{anchor}" if anchor else where

    def decision(self, session: str, seq: int, gate: str, call: str = "") -> str:
        """Return the address of a decision, of the ruling on `call` where one is named."""
        where = f"/sessions/{quote(session, safe='')}/decisions/{seq}.{quote(gate[:40], safe='')}"
        return f"{where}?call={quote(call[:80], safe='')}" if call else where

    def asset(self, name: str) -> str:
        """Return the address of a file of ours."""
        return f"/assets/{name}"


class FileLinks:
    """Anchors within one file that holds all of a session, and explains the decisions named by number and gate."""

    def __init__(self, explained: Collection[tuple[int, str]] = ()) -> None:
        self._explained = explained

    def session(self, session: str, page: int = 0, anchor: str = "") -> str:
        """Return the anchor of a row."""
        return f"#{anchor or 'top'}"

    def decision(self, session: str, seq: int, gate: str, call: str = "") -> str:
        """Return the anchor of a decision, "" where it is not explained here."""
        return f"#{name_decision(seq, gate)}" if (seq, gate) in self._explained else ""

    def asset(self, name: str) -> str:
        """Return nothing: the file holds them itself."""
        return ""

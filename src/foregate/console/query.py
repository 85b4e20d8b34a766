"""What a page was asked for in its address: words, names of a fixed choice, days and places, each within bounds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, time, timedelta
from urllib.parse import urlencode

from foregate.schemas.errors import UsageError

_LONGEST = 200
"""Characters of one field at most."""


class Query:
    """The fields of an address; what is empty counts as left out."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = {name: value.strip() for name, value in fields.items() if value.strip()}
        for name, value in self.fields.items():
            if len(value) > _LONGEST:
                raise UsageError(f"`{name[:40]}` is longer than {_LONGEST} characters; say it in fewer")

    def get(self, name: str) -> str:
        """Return a field, "" for one that is left out."""
        return self.fields.get(name, "")

    def list_words(self, name: str) -> tuple[str, ...]:
        """Return a field as the one phrase that must be found; nothing where it is left out."""
        return (self.fields[name],) if name in self.fields else ()

    def list_pattern(self, name: str) -> tuple[str, ...]:
        """Return a field as a pattern that fits anywhere in a text, unless it says itself where."""
        text = self.get(name)
        return (text if "*" in text or "?" in text else f"*{text}*",) if text else ()

    def choose(self, name: str, known: Collection[str]) -> tuple[str, ...]:
        """Return a field that is one of the known; raise UsageError for any other."""
        if (value := self.get(name)) and value not in known:
            raise UsageError(f"there is no {name} `{value[:60]}`; there are {', '.join(known)}")
        return (value,) if value else ()

    def read_day(self, name: str, *, end: bool = False) -> datetime | None:
        """Return the beginning, or the end, of a day of UTC, as in `2026-11-23`; raise UsageError for any other."""
        if not (text := self.get(name)):
            return None
        try:
            day = datetime.combine(datetime.strptime(text, "%Y-%m-%d").date(), time(), UTC)
        except ValueError:
            raise UsageError(f"`{text[:40]}` is no day; write it as 2026-11-23") from None
        return day + timedelta(days=1, milliseconds=-1) if end else day

    def read_number(self, name: str) -> int | None:
        """Return a whole number; raise UsageError for anything else."""
        text = self.get(name)
        if text and not (text.isascii() and text.isdigit() and len(text) < 16):
            raise UsageError(f"`{text[:40]}` is no number here; open the page from its list")
        return int(text) if text else None

    def build_address(self, path: str, **more: str | int) -> str:
        """Return the address of the same selection with other fields."""
        fields = {**self.fields, **{name: str(value) for name, value in more.items()}}
        return f"{path}?{urlencode(fields)}" if fields else path

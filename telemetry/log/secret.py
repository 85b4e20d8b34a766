"""A secret that is known by its value, such as the key Foregate itself speaks to a model with."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

SHORTEST = 8
"""Texts below this many characters are not searched: nothing so short is a secret worth the name."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A value nobody may see, and the name it is replaced by: of a variable, a header or a setting. Neither its
    representation nor its mark tells anything of the value."""

    name: str
    value: str = field(repr=False)

    @property
    def mark(self) -> str:
        """What stands in place of the value. It holds no hash, since a password can be guessed from one."""
        return f"[masked {self.name}]"

    def list_spellings(self) -> Iterator[tuple[str, str]]:
        """Yield the texts that stand for the value, each with an RE2 expression for what may follow it.

        That is the value itself, as JSON and URLs write it, and its base64, also within a longer text that is encoded
        as a whole (`user:password`).
        """
        written = {self.value, *_spell_as_json(self.value), *_spell_as_url(self.value)}
        yield from ((text, "") for text in written)
        yield from ((text, "[A-Za-z0-9+/_-]*={0,2}") for text in _spell_as_base64(self.value))


def _spell_as_json(value: str) -> Iterator[str]:
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield text
        yield text.replace("/", "\\/")


def _spell_as_url(value: str) -> Iterator[str]:
    data = value.encode("utf-8", "surrogateescape")
    for text in (quote(data, safe=""), quote(data), quote_plus(data)):
        yield text
        yield re.sub("%..", lambda match: match[0].lower(), text)


def _spell_as_base64(value: str) -> set[str]:
    """Return what the base64 of any text with the value in it has in common, for each place it may begin at."""
    found = set()
    for before in range(3):
        data = bytes(before) + value.encode("utf-8", "surrogateescape")
        whole = data[: len(data) // 3 * 3]
        skipped = (0, 2, 3)[before]  # characters that tell of what stands before the value
        found |= {encode(whole).decode()[skipped:] for encode in (b64encode, urlsafe_b64encode)}
    return found

"""Names that look like a tag's and are not: letters of another alphabet, characters nobody sees."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable


class LookAlikes:
    """The names of tags, to be compared with what is in a text."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(set(names))
        self._by_length: dict[int, list[str]] = {}
        for name in self._names:
            self._by_length.setdefault(len(name), []).append(name)
        self._tag = re.compile(rf"<(?:{'|'.join(map(re.escape, self._names))})[\s/>]")

    def has_tag(self, text: str) -> bool:
        """Whether a text holds the opening tag of one of the names."""
        return self._tag.search(text) is not None

    def find_like(self, text: str) -> str:
        """Return the name that a text with characters beyond ASCII looks like, "" for none.

        It does when the name is left once invisible characters are gone and compatible ones are replaced, or when it
        differs only in characters beyond ASCII, and in no more than half.
        """
        seen = "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
        same = self._by_length.get(len(seen), ())
        return next((name for name in same if _is_alike(seen.lower(), name.lower())), "")


def _is_alike(seen: str, name: str) -> bool:
    other = [char for char, own in zip(seen, name, strict=False) if char != own]
    return all(not char.isascii() for char in other) and len(other) * 2 <= len(name)

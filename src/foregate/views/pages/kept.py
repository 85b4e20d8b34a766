"""The bytes a log refers to, as a page may show them: only where they are what their name says, and masked."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import overload

from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError
from foregate.schemas.protocols import Blobs

_LARGEST, _SEEN = 1_000_000, 200
"""Characters of a text that is remembered, and how many are."""


def _show_all(text: str) -> str:
    return text


class KeptBytes:
    """What a blob store holds for a page; `hide` masks the texts of it. Without a store nothing is kept."""

    def __init__(self, blobs: Blobs | None, hide: Callable[[str], str] = _show_all) -> None:
        self._blobs, self.hide = blobs, hide
        self._seen: dict[str, bytes] = {}

    @property
    def is_at_hand(self) -> bool:
        """Whether there is a store at all."""
        return self._blobs is not None

    def find(self, hash_: str) -> bytes | None:
        """Return the bytes of this hash as they were, None where they are gone or others."""
        if hash_ in self._seen:
            return self._seen[hash_]
        if self._blobs is None:
            return None
        try:
            data = self._blobs.get(hash_)
        except ForegateError:
            return None
        return data if strict_json.sha256(data) == hash_ else None

    def remember(self, text: str, hashes: Collection[str]) -> None:
        """Keep a text that an event holds, where it is what one of the hashes names: a whole file that was read."""
        if not hashes or len(text) > _LARGEST:
            return
        data = text.encode("utf-8", "surrogatepass")
        if (hash_ := strict_json.sha256(data)) in hashes:
            self._seen[hash_] = data
            if len(self._seen) > _SEEN:
                del self._seen[next(iter(self._seen))]

    @overload
    def mask(self, data: bytes) -> bytes: ...
    @overload
    def mask(self, data: None) -> None: ...
    def mask(self, data: bytes | None) -> bytes | None:
        """Return bytes with what is to be masked in them masked; the same bytes where nothing is, None for None."""
        if data is None:
            return None
        text = data.decode("utf-8", "surrogateescape")
        shown = self.hide(text)
        return data if shown is text else shown.encode("utf-8", "surrogateescape")

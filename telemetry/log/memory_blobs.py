"""Content-addressed bytes in memory."""

from __future__ import annotations

from foregate.schemas import strict_json
from foregate.schemas.errors import LogError


class MemoryBlobs:
    """Bytes by their SHA-256; gone when the process ends."""

    def __init__(self) -> None:
        self._bytes: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        """Keep `data` and return its SHA-256."""
        name = strict_json.sha256(data)
        self._bytes[name] = data
        return name

    def get(self, hash: str) -> bytes:  # noqa: A002
        """Return the bytes; raise LogError when there are none of that name."""
        try:
            return self._bytes[hash]
        except KeyError:
            raise LogError(f"no stored bytes are named `{hash}`") from None

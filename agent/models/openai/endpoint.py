"""The endpoint: its address and key, and how it is named without the key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args
from urllib.parse import urlsplit

from foregate.schemas.errors import UsageError
from foregate.schemas.strict_json import sha256

Api = Literal["chat", "responses"]
"""Chat Completions or Responses."""
APIS: tuple[Api, ...] = get_args(Api)
OPENAI_URL = "https://api.openai.com/v1"
"""Said where an address is missing, and never asked unless somebody names it."""
PLACEHOLDER_KEY = "no-key-needed"
"""Sent to endpoints of one's own that want some key and check none."""

SHOWN = 300
"""Characters of an endpoint's own words that a sentence repeats."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address (`url`, without a trailing slash), the key for it, which no representation shows, and its API."""

    url: str
    key: str = field(repr=False)
    api: Api = "chat"

    @classmethod
    def of(cls, url: str | None, key: str | None, api: Api = "chat") -> Endpoint:
        """Return the endpoint; raise UsageError for an address or a key that cannot be one, and for no address.

        Without `key` it gets a placeholder, since servers of one's own often want some key and check none.
        """
        key = (key or "").strip()
        if not all("!" <= char <= "~" for char in key):
            raise UsageError("the key holds a space or a character that no key has; set OPENAI_API_KEY anew")
        if not (url or "").strip():
            raise UsageError(f"the model has no address; name its `base_url` (OpenAI's own is {OPENAI_URL})")
        return cls(_check_url((url or "").strip()), key or PLACEHOLDER_KEY, api)

    def mark(self, model: str) -> str:
        """Return what stands in logs for this endpoint and one of its models: 16 hexadecimal digits, no address."""
        return sha256(f"{self.api} {self.url}\n{model}".encode("utf-8", "surrogatepass"))[:16]

    def clean(self, text: object) -> str:
        """Return words of the endpoint fit for a terminal: one line, printable, short, without the key."""
        words = text if isinstance(text, str) else ""
        if self.key != PLACEHOLDER_KEY:
            words = words.replace(self.key, "[key]")
        shown = "".join(char if char.isprintable() else " " for char in words[: SHOWN * 4])
        shown = " ".join(shown.split()).rstrip(".")
        return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]} ..."


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018
    except ValueError:
        raise UsageError("the base URL cannot be read; set OPENAI_BASE_URL to http(s)://host[:port]/path") from None
    if parts.username is not None or parts.password is not None:
        raise UsageError("the base URL holds a user name or password; put the key in OPENAI_API_KEY instead")
    sound = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
    if not sound or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError("the base URL is not http(s)://host[:port]/path; set OPENAI_BASE_URL to such an address")
    return url.rstrip("/")

"""Long values that many sessions have in common, such as the policy: cut out of an event's text and stored once.

The chain covers the whole text. What stays of it is JSON too: an empty object, list or text stands where a value was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from foregate.schemas import strict_json
from foregate.schemas.event_body import CatalogChanged, PolicyChanged, SessionStarted

BODIES = (SessionStarted, PolicyChanged, CatalogChanged)
"""The bodies whose long values are stored once; a session has few of them."""
_LEAST = 256
"""Characters of a value that is worth the row that says where it belongs."""


class Part(NamedTuple):
    """The inside of a value that was cut out: its place in the whole text, its SHA-256, and itself."""

    place: int
    hash: str
    text: str


class _Values(msgspec.Struct):
    """The body of an event as far as its values may be long."""

    catalogue: msgspec.Raw = msgspec.Raw()
    layers: msgspec.Raw = msgspec.Raw()
    permissions: msgspec.Raw = msgspec.Raw()
    policy: msgspec.Raw = msgspec.Raw()
    system: msgspec.Raw = msgspec.Raw()


class _CutLine(msgspec.Struct):
    """A line of the log as far as its body."""

    body: _Values


_LINES = msgspec.json.Decoder(_CutLine)


def cut_text(text: str) -> tuple[str, list[Part]]:
    """Return what stays of the canonical text of an event, and the parts that were cut out, in their order."""
    found: list[Part] = []
    values = msgspec.structs.asdict(_LINES.decode(text).body)
    for name, raw in values.items():
        if len(raw) < _LEAST:
            continue
        value = bytes(raw).decode()
        # Behind the name with its quotes, the colon and the bracket that opens the value.
        place = text.index(f'"{name}":{value}') + len(name) + 4
        inside = value[1:-1]
        found.append(Part(place, strict_json.sha256(inside.encode()), inside))
    found.sort()
    stays, end = [], 0
    for part in found:
        stays.append(text[end : part.place])
        end = part.place + len(part.text)
    whole = "".join((*stays, text[end:]))
    # A value that also stands within another would be cut twice.
    again = join_text(whole, ((part.place, part.text) for part in found))
    return (whole, found) if again == text else (text, [])


def join_text(text: str, parts: Iterable[tuple[int, str]]) -> str:
    """Return the whole of a text whose rest is `text`, given the place and the text of each part in their order."""
    for place, part in parts:
        text = f"{text[:place]}{part}{text[place:]}"
    return text

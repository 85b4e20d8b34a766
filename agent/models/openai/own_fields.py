"""The fields of a message that only its endpoint understands, collected from the pieces of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foregate.schemas.strict_json import Json

_NAMED = frozenset({"format", "id", "index", "name", "object", "role", "type"})
"""Fields that name something: a piece repeats them whole, where other fields continue their text."""
_PARTS = ("text", "thinking")
"""Parts of a content that come in pieces, one after the other and without an index."""
_DEEPEST = 100
_NEAR = 64
"""Items of a list, from its end, among which the one is looked for that a piece continues."""


class _Pieces(list[str]):
    """A text that is not whole yet."""


class OwnFields:
    """Fields as they come in pieces. One that is nested deeper than a log should hold is left out."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self.has_left_out = False

    def add(self, fields: Mapping[str, Json]) -> int:
        """Take in the next pieces; return about how many characters they take as JSON."""
        size = 0
        for name, value in fields.items():
            try:
                size += _measure(value, _DEEPEST)
            except RecursionError:
                self.has_left_out = True
                continue
            self._fields[name] = _join(self._fields.get(name), value, name)
        return size

    def end(self) -> dict[str, Json]:
        """Return what was collected."""
        return {name: _end(value) for name, value in self._fields.items()}


def _join(old: Any, new: Json, name: str = "") -> Any:
    """Return a value that is collected, `old` or None, with its next piece; `old` may be changed.

    Texts go on, objects do so field by field and lists item by item; anything else is replaced.
    """
    if new is None:
        return old
    if isinstance(new, str):
        if name in _NAMED or not isinstance(old, _Pieces):
            return new if name in _NAMED else _Pieces([new])
        old.append(new)
        return old
    if isinstance(new, Mapping):
        found = old if isinstance(old, dict) else {}
        for key, value in new.items():
            found[key] = _join(found.get(key), value, key)
        return found
    if isinstance(new, list):
        items = old if isinstance(old, list) and not isinstance(old, _Pieces) else []
        for item in new:
            at = _find_item(items, item)
            if at < len(items):
                items[at] = _join(items[at], item)
            else:
                items.append(_join(None, item))
        return items
    return new


def _end(value: Any) -> Any:
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {key: _end(item) for key, item in value.items()}
    return [_end(item) for item in value] if isinstance(value, list) else value


def _measure(value: Json, left: int) -> int:
    """Return about how many characters a value takes as JSON; raise RecursionError where it is nested deeper."""
    if not left:
        raise RecursionError
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(key) + _measure(item, left - 1) + 4 for key, item in value.items())
    return sum(_measure(item, left - 1) + 2 for item in value) if isinstance(value, list) else 8


def _find_item(items: list[Any], piece: Json) -> int:
    """Return the place of the item that a piece continues: by its index, or just before; else the next place."""
    if not isinstance(piece, Mapping) or not items:
        return len(items)
    index = piece.get("index")
    if index is None:
        last = items[-1]
        goes_on = isinstance(last, dict) and piece.get("type") in _PARTS and last.get("type") == piece.get("type")
        return len(items) - 1 if goes_on else len(items)
    for at in range(len(items) - 1, max(-1, len(items) - 1 - _NEAR), -1):
        if isinstance(items[at], dict) and items[at].get("index") == index:
            return at
    return len(items)

"""The keys of the shapes plans are written in: ours, and what others call them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


def list_keys(shape: type[Struct], **foreign: tuple[str, ...]) -> Mapping[str, str]:
    """Return our name of every key of a shape, by itself and by the names others use for it."""
    theirs = {name: ours for ours, every in foreign.items() for name in every}
    return {name: name for name in shape.__struct_fields__} | theirs

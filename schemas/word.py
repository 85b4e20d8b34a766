"""Words of a fixed list: each is its text, equal to it and hashed like it."""

from __future__ import annotations

from enum import StrEnum


class Word(StrEnum):
    """Base of the lists of words. A plain StrEnum equals its text but hashes by its name: slowly, and unlike it."""

    __hash__ = str.__hash__

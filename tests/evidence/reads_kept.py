"""Reads as tests keep them, and where they find a text."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from foregate.evidence.reads import FoundValue, Reads, WantedField
from foregate.schemas.tool_spec import OwnFields
from foregate.schemas.value import Value, read_value

BILLS = json.dumps([{"to": "GB29", "for": "Gas"}, {"to": "CH93", "for": "Water"}])
NAMES = st.sampled_from(["to", "for", "id"])
WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta", "GB29", "CH93", "17"])
TABLES = st.lists(st.dictionaries(NAMES, WORDS, min_size=1), min_size=1, max_size=4)
ASKED = '{"of": "May"}'


def keep(*contents: str, arguments: str = ASKED, own: OwnFields = (), tool: str = "look") -> Reads:
    """Return the reads that returned these, with the events 1, 2 and so on; they were asked with something."""
    reads = Reads()
    for seq, content in enumerate(contents, 1):
        reads.add(seq, tool, arguments, content, own)
    return reads


def read(text: str) -> Value:
    """Return a text as one value."""
    value = read_value(text)
    assert value is not None
    return value


def find(reads: Reads, text: str, *words: str, wholes: tuple[str, ...] = (), **more: Any) -> FoundValue | None:
    """Return where a text is found as one value, beside words of the person's and values that they say as a whole."""
    return reads.find(read(text), text, WantedField(frozenset(words), frozenset(map(read, wholes)), **more))


def is_meant(reads: Reads, text: str, *words: str, wholes: tuple[str, ...] = ()) -> bool:
    """Whether a text is found in the record that the person means."""
    found = find(reads, text, *words, wholes=wholes)
    assert found is not None
    return found.is_meant


def say_place(found: FoundValue | None) -> tuple[int, str, str, str] | None:
    return found and found[:4]

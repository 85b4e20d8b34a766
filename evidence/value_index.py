"""Where values stand in the records of a read, and which record of a tool a person's words tell from the others."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from foregate.evidence.records import Record, list_record_words
from foregate.schemas.value import Value

_LONGEST_NAME = 60
"""Characters of what a person would type to name a record."""
_MOST_NAMES = 64
"""Names of fields under which a value is looked at: for each of them all records of a tool are compared."""
SaidText = tuple[AbstractSet[str], AbstractSet[Value]]
"""The person's words, and the values that they say as a whole."""
Told = tuple[frozenset[str], frozenset[Value | None]]
"""Words of the person's that stand in a record, and its fields that they say as a whole."""


@dataclass(slots=True)
class ValueIndex:
    """Some records, and for each value the records and fields that hold it."""

    records: tuple[Record, ...]
    places: dict[Value, dict[tuple[int, str], Record]] = field(default_factory=dict)
    words: dict[int, frozenset[str]] = field(default_factory=dict)
    """The words of records, by where they are in memory: the index holds them."""

    def __post_init__(self) -> None:
        for record in self.records:
            for one in record.fields:
                if one.value is not None:
                    # A list within a mapping is as many fields of one name.
                    self.places.setdefault(one.value, {})[id(record), one.name] = record

    def find_places(self, value: Value) -> list[tuple[Record, str]]:
        """Return the records and fields that hold a value, none for one that stands under too many names."""
        found = [(record, name) for (_, name), record in self.places.get(value, {}).items()]
        return found if len({name for _, name in found}) <= _MOST_NAMES else []

    def list_told(self, record: Record, said: SaidText) -> Told:
        """Return the person's words that stand in a record, and the fields that they say as a whole."""
        if (words := self.words.get(id(record))) is None:
            words = self.words[id(record)] = list_record_words(record)
        told, wholes = said
        return words & told, frozenset(one.value for one in record.fields if one.value in wholes)


class ToolListing(NamedTuple):
    """What tells the records of a tool apart that have a field of one name: the most words and whole values of the
    person's that one of them holds and not every other does.

    `common` and `shared` are such words and values that all of them hold. `is_one` tells that all records with the most
    of them give the value that is looked for, `is_alone` that there is no other record, `is_open` that none holds any.
    """

    common: frozenset[str]
    shared: frozenset[Value | None]
    most: tuple[int, int]
    is_one: bool
    is_alone: bool
    is_open: bool

    @classmethod
    def build(cls, indexes: Iterable[ValueIndex], name: str, value: Value, said: SaidText) -> Self:
        """Return what tells those records apart that have a field `name`; one of them has."""
        places = [(index, record) for index in indexes for record in index.records]
        listed = [(index, record) for index, record in places if any(one.name == name for one in record.fields)]
        told = [index.list_told(record, said) for index, record in listed]
        common = frozenset.intersection(*(words for words, _ in told))
        shared = frozenset.intersection(*(wholes for _, wholes in told))
        marks = [(len(wholes - shared), len(words - common)) for words, wholes in told]
        most = max(marks)
        meant = [record for (_, record), mark in zip(listed, marks, strict=True) if mark == most]
        is_one = all(any(one.name == name and one.value == value for one in record.fields) for record in meant)
        is_alone = len({record.fields for _, record in listed}) < 2
        return cls(common, shared, most, is_one, is_alone, is_open=not any(words or wholes for words, wholes in told))

    def tell_apart(self, record: Record, value: Value, told: Told, asked: str) -> tuple[frozenset[str], bool, bool]:
        """Return the person's words that a record holds and not every other does, whether it is the one they mean, and
        whether no record holds any.

        That is the record with most fields that they say as a whole, or else with most of their words, where all
        with as many give the same value. A record that is alone is meant where any of the words stands in it, or where
        its read was asked with nothing.
        """
        words, wholes = told
        if self.is_alone:
            itself = list_record_words(Record((), tuple(one for one in record.fields if one.value == value)))
            return frozenset(words - itself), bool(words) or asked.strip() in ("", "{}"), not words
        mark = len(wholes - self.shared), len(words - self.common)
        if mark == (0, 0) or mark != self.most:
            return frozenset(), False, self.is_open
        if not self.is_one:
            return frozenset(), False, False
        return frozenset(words - self.common) or frozenset(words), True, False


def name_record(record: Record, indexes: Iterable[ValueIndex]) -> str:
    """Return the text by which people would know a record from all others of its tool: words rather than a code."""
    others = (other for index in indexes for other in index.records if other.fields != record.fields)
    taken = {one.value for other in others for one in other.fields}
    named = [one.text.strip() for one in record.fields if one.value not in taken and one.value and is_name(one.value)]
    shown = [text for text in named if text.isprintable() and len(text) <= _LONGEST_NAME]
    return min(shown, key=lambda text: (" " not in text, any(map(str.isdigit, text))), default="")


def is_name(value: Value) -> bool:
    return value.kind in ("words", "path", "host", "address")

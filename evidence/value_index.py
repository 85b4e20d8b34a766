"""Where values stand in the records of a read, and which record of a tool a person's words tell from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from foregate.evidence.records import Record, list_record_words
from foregate.schemas.value import Value, is_lookalike

_SHORTEST_NAME, _LONGEST_NAME = 5, 60
"""Characters of what a person would type to name a record: no answer such as `y`, `all` or `yes` is one."""
_MOST_NAMES = 64
"""Names of fields under which a value is looked at: for each of them all records of a tool are compared."""
_MOST_COMPARED = 1024
"""Values that an index remembers having looked for among those that look like others."""
SaidText = tuple[AbstractSet[str], AbstractSet[Value], AbstractSet[str]]
"""The person's words, the values that they say as a whole, and those of the words that are codes of the call's too."""
Told = tuple[AbstractSet[str], AbstractSet[Value]]
"""Words of the person's that stand in a record, and its fields that they say as a whole."""


@dataclass(slots=True)
class ValueIndex:
    """Some records by number, and for each value, name of a field and word the records that hold it.

    A read is asked about at every look at a call, so what does not depend on what is asked is made once.
    """

    records: tuple[Record, ...]
    places: dict[Value, dict[tuple[int, str], None]] = field(default_factory=dict)
    names: dict[str, set[int]] = field(default_factory=dict)
    words: dict[str, set[int]] = field(default_factory=dict)
    lookalikes: dict[Value, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, record in enumerate(self.records):
            for one in record.fields:
                self.names.setdefault(one.name, set()).add(number)
                if one.value is not None:
                    # A list within a mapping is as many fields of one name.
                    self.places.setdefault(one.value, {})[number, one.name] = None
            for word in list_record_words(record):
                self.words.setdefault(word, set()).add(number)

    def find_places(self, value: Value) -> list[tuple[int, str]]:
        """Return the records and fields that hold a value, none for one that stands under too many names."""
        found = self.places.get(value)
        return [] if found is None or len({name for _, name in found}) > _MOST_NAMES else [*found]

    def has_lookalike(self, value: Value) -> bool:
        """Whether a field holds a value that looks like this one and is another."""
        if (known := self.lookalikes.get(value)) is None:
            if len(self.lookalikes) >= _MOST_COMPARED:
                self.lookalikes.clear()
            known = self.lookalikes[value] = any(is_lookalike(value, other) for other in self.places)
        return known

    def list_told(self, said: SaidText, numbers: AbstractSet[int]) -> dict[int, tuple[set[str], set[Value]]]:
        """Return which of the person's words and whole values stand in each of some records, where any does."""
        told: dict[int, tuple[set[str], set[Value]]] = {}
        for word in said[0] & self.words.keys():
            for number in self.words[word] & numbers:
                told.setdefault(number, (set(), set()))[0].add(word)
        for value in said[1] & self.places.keys():
            for number, _ in self.places[value]:
                if number in numbers:
                    told.setdefault(number, (set(), set()))[1].add(value)
        return told


_NOTHING: Told = (frozenset(), frozenset())


class ToolListing(NamedTuple):
    """What tells the records of a tool apart that have a field of one name: the most words and whole values of the
    person's that one of them holds and not every other does; first of all codes that the call has beside.

    `told` are those that each record holds, by index and number; `common` and `shared` those that all of them hold.
    `is_one` tells that all records with the most give one of the values that are looked for, which one list takes;
    `is_alone` that there is no other.
    """

    told: dict[tuple[int, int], Told]
    common: AbstractSet[str]
    shared: AbstractSet[Value]
    codes: AbstractSet[str]
    most: tuple[int, int, int]
    is_one: bool
    is_alone: bool

    @classmethod
    def build(cls, indexes: Sequence[ValueIndex], name: str, given: AbstractSet[Value], said: SaidText) -> Self:
        """Return what tells those records apart that have a field `name`; one of them has."""
        listed = [(index, index.names.get(name, set())) for index in indexes]
        told: dict[tuple[int, int], Told] = {
            (id(index), number): held
            for index, numbers in listed
            for number, held in index.list_told(said, numbers).items()
        }
        total = sum(len(numbers) for _, numbers in listed)
        words = Counter(word for held, _ in told.values() for word in held)
        wholes = Counter(whole for _, held in told.values() for whole in held)
        common = {word for word, count in words.items() if count == total}
        shared = {whole for whole, count in wholes.items() if count == total}
        codes = said[2] - common
        marks = {
            key: (len(held[0] & codes), len(held[1] - shared), len(held[0] - common)) for key, held in told.items()
        }
        most = max(marks.values(), default=(0, 0, 0))
        giving = {
            (id(index), number)
            for index in indexes
            for one in given
            for number, field in index.places.get(one, ())
            if field == name
        }
        is_one = all(key in giving for key, mark in marks.items() if mark == most)
        records = (index.records[number] for index, numbers in listed for number in numbers)
        first = next(records)
        return cls(told, common, shared, codes, most, is_one, all(record.fields == first.fields for record in records))

    def tell_apart(self, index: ValueIndex, number: int, value: Value, asked: str) -> tuple[frozenset[str], bool, bool]:
        """Return the person's words that a record holds and not every other does, whether it is the one they mean, and
        whether no record holds any.

        That is the record with most fields that they say as a whole, or else with most of their words, where all
        with as many give the same value. A record that is alone is meant where any of the words stands in it, or where
        its read was asked with nothing.
        """
        words, wholes = self.told.get((id(index), number), _NOTHING)
        if self.is_alone:
            record = index.records[number]
            others = Record((), tuple(one for one in record.fields if one.value != value), record.above)
            # A word of the value itself, as in `kim@berg.example`, counts where another field holds it, too.
            beside = frozenset(words & list_record_words(others))
            return beside, bool(words) or asked.strip() in ("", "{}"), not words
        mark = len(words & self.codes), len(wholes - self.shared), len(words - self.common)
        if mark == (0, 0, 0) or mark != self.most:
            return frozenset(), False, not self.told
        if not self.is_one:
            return frozenset(), False, False
        return frozenset(words - self.common or words), True, False


def name_record(record: Record, indexes: Sequence[ValueIndex]) -> str:
    """Return the text by which people would know a record from all others of its tool: words rather than a code."""

    def is_apart(value: Value) -> bool:
        held = ((index, number) for index in indexes for number, _ in index.places.get(value, ()))
        return all(index.records[number].fields == record.fields for index, number in held)

    named = [one.text.strip() for one in record.fields if one.value and is_name(one.value) and is_apart(one.value)]
    shown = [text for text in named if text.isprintable() and _SHORTEST_NAME <= len(text) <= _LONGEST_NAME]
    return min(shown, key=lambda text: (" " not in text, any(map(str.isdigit, text))), default="")


def is_name(value: Value) -> bool:
    return value.kind in ("words", "path", "host", "address")

"""Whether a field of a record gives an argument its value: nothing else could be meant; pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from foregate.evidence.records import Record
from foregate.policy.mandate_section import Mandate
from foregate.policy.risk.said import NAME_PARTS, SaidValues
from foregate.policy.risk.sorts import are_alike, has_form, is_identifier, is_same_kind
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.value import Value

# "[0]" in "items[0].price".
_PLACE = compile_late(r"\[\d+\]")


_SHORT = 2
"""Letters of a word that has no plural."""


class WantedValue(Struct, frozen=True):
    """A value that an argument has at `path`, whether it is an amount, and whether the person agreed to it in words of
    the model; the person's words, and which of their values no call has used yet."""

    value: Value
    path: str
    is_amount: bool
    is_agreed: bool
    said: SaidValues
    is_unused: Callable[[Value], bool]
    section: Mandate

    def is_given_by(self, record: Record, name: str, is_own: bool = False) -> bool:
        """Whether the field `name` of a record gives the value; `is_own` is one that nobody outside can write.

        Where anybody may have written anything an address, a code, a number or a date is none. Beside another of its
        sort it counts where its field is called as the argument is, says who wrote the record, or is named by the
        person. A date counts nowhere beside another that the person said, unless that stands in the record, nor does an
        amount.
        """
        if self.value.kind == "words" and not is_identifier(self.value):
            return True
        if not is_own and self.is_free(name):
            return False
        others = [one for one in record.fields if one.value is not None and not self.is_free(one.name)]
        rivals = [one.name for one in others if one.name != name and one.value and self.is_rival(one.value)]
        if rivals and not self.is_called(name, rivals):
            return False
        return not self.has_other_said({one.value for one in others if one.value})

    def is_free(self, name: str) -> bool:
        """Whether a field is one for free text, by its name."""
        return name.casefold() in self.section.texts or name.casefold() in self.section.remarks

    def is_rival(self, other: Value) -> bool:
        """Whether another value could stand here: any number as an amount, else of long ones, which are names, one."""
        if other == self.value:
            return False
        if self.value.kind == other.kind == "number":
            return self.is_amount or is_identifier(self.value) == is_identifier(other)
        return are_alike(self.value, other)

    def is_called(self, name: str, rivals: Iterable[str] = ()) -> bool:
        """Whether a field is called as the argument is, and none of its rivals more so; says who wrote the record; or
        is one the person names."""
        fit = self.measure_fit(name)
        if fit and fit > max(map(self.measure_fit, rivals), default=0):
            return True
        writes = name.casefold() in self.section.flows.senders and self.value.kind != "number"
        return writes or not split_name(name).isdisjoint(map(get_singular, self.said.words))

    def measure_fit(self, name: str) -> float:
        """Return how well the name of a field fits that of the argument: 0 where one has words that the other lacks
        and the other way round, 1 where they are the same, as `id_` fits `file_id` by half."""
        words, wanted = split_name(name), split_name(_PLACE.sub("", self.path).rpartition(".")[2])
        if not words or not (words <= wanted or wanted <= words):
            return 0
        return len(words & wanted) / len(words | wanted)

    def has_other_said(self, values: Collection[Value]) -> bool:
        """Whether the person said another date or amount, which no call used and the record does not hold."""
        if self.is_agreed or (self.value.kind != "moment" and not self.is_amount):
            return False
        others = (forms for forms in self.said.list_others(self.value) if not any(map(self.is_within(values), forms)))
        return any(all(map(self.is_unused, forms)) for forms in others)

    @staticmethod
    def is_within(values: Collection[Value]) -> Callable[[Value], bool]:
        """Return whether a value of the person's stands among those of a record."""
        return lambda value: any(is_same_kind(one, value) and has_form([value], one) for one in values)


def split_name(name: str) -> frozenset[str]:
    """Return the folded words of the name of a field or an argument, in the singular."""
    return frozenset(get_singular(part.group().casefold()) for part in NAME_PARTS.finditer(name))


def get_singular(word: str) -> str:
    """Return a folded word without the `s` of a plural; one that ends so anyway loses it on both sides."""
    return word.removesuffix("s") if len(word) > _SHORT else word

"""Bodies of events made from their types alone, so that a field nobody thought of is in them, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec.inspect as inspect
from hypothesis import strategies as st

from foregate.schemas.event import Body
from foregate.schemas.plan import Criterion

T = TypeVar("T")
TYPES: tuple[inspect.StructType, ...] = inspect.type_info(Body).types  # type: ignore[attr-defined]
"""The type of each body."""


class Choose(Protocol):
    """Chooses the values of what a type leaves open."""

    def one_of(self, options: Sequence[T]) -> T:
        """Return one of several."""

    def text(self) -> str:
        """Return a text."""

    def number(self) -> int:
        """Return a whole number."""

    def json(self) -> Any:
        """Return JSON as the log holds it: no floats, only ASCII keys."""

    def has(self) -> bool:
        """Whether to say what may be left out."""


@dataclass(frozen=True)
class Same:
    """Gives every text the same words, every choice the last option, and what may be left out where it is `whole`."""

    words: str = "words"
    whole: bool = True

    def one_of(self, options: Sequence[T]) -> T:
        return options[-1]

    def text(self) -> str:
        return self.words

    def number(self) -> int:
        return 7

    def json(self) -> Any:
        return {"key": [self.words, 7, None, True]}

    def has(self) -> bool:
        return self.whole


KEYS = st.text("abcdefghij_", min_size=1, max_size=3)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=3,
)


@dataclass(frozen=True)
class Drawn:
    """Values hypothesis draws."""

    draw: st.DrawFn

    def one_of(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))

    def text(self) -> str:
        return self.draw(st.text(max_size=4))

    def number(self) -> int:
        return self.draw(NUMBERS)

    def json(self) -> Any:
        return self.draw(JSON)

    def has(self) -> bool:
        return self.draw(st.integers(0, 3)) == 0


@st.composite
def bodies(draw: st.DrawFn) -> Body:
    """Bodies of every kind."""
    return make(draw(st.sampled_from(TYPES)), Drawn(draw))  # type: ignore[no-any-return]


def body_of(kind: str, choose: Choose) -> Body:
    """Return a body of one kind."""
    return make(next(found for found in TYPES if found.tag == kind), choose)  # type: ignore[no-any-return]


def make(kind: inspect.Type, choose: Choose) -> Any:
    """Return a value of a type."""
    match kind:
        case inspect.StructType(cls=cls, fields=fields):
            said = [field for field in fields if field.required or choose.has()]
            return cls(**{field.name: make(field.type, choose) for field in said})
        case inspect.UnionType(types=types):
            # The option that says something comes last, where it is what a whole body has.
            return make(choose.one_of(sorted(types, key=lambda one: not isinstance(one, inspect.NoneType))), choose)
        case inspect.VarTupleType(item_type=item):
            return (make(item, choose),) if choose.has() else ()
        case inspect.TupleType(item_types=items):
            return tuple(make(item, choose) for item in items)
        case inspect.DictType(value_type=value):
            return {"key": make(value, choose)} if choose.has() else {}
        case inspect.LiteralType(values=values):
            return choose.one_of(values)
        case inspect.EnumType(cls=cls):
            return choose.one_of(list(cls))
        case inspect.StrType():
            return choose.text()
        case inspect.IntType():
            return choose.number()
        case inspect.BoolType():
            return choose.one_of([False, True])
        case inspect.AnyType():
            return choose.json()
        case inspect.NoneType():
            return None
        case inspect.CustomType(cls=cls) if cls is Criterion:
            check = choose.one_of([None, "file_exists"])
            return Criterion(text=choose.text(), check=check, target=choose.text(), expected=None)
    raise AssertionError(f"{kind} stands in a body, and nothing here makes one")


def nouns(kind: inspect.Type) -> Iterator[inspect.StructType | inspect.CustomType]:
    """Yield every noun reachable from a type, those reached in several ways several times."""
    match kind:
        case inspect.StructType(fields=fields):
            yield kind
            for field in fields:
                yield from nouns(field.type)
        case inspect.CustomType():
            yield kind
        case inspect.UnionType(types=inner) | inspect.TupleType(item_types=inner):
            for one in inner:
                yield from nouns(one)
        case inspect.VarTupleType(item_type=one) | inspect.DictType(value_type=one):
            yield from nouns(one)
        case _:
            pass

"""A policy whose reading is followed: what a judgement under it rests on, value by value.

A judgement reads nothing but its turn and its policy. While every noted condition holds under another policy, judging
the same turn takes the same way and ends the same. So what is noted may be too much and never too little: what is
only read counts as resting on the very value, and just what is compared in a way that is followed rests on less.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

from foregate.policy.policy import Policy
from foregate.policy.section import PolicySection

T = TypeVar("T")
Path = tuple[str, ...]
Condition = tuple[Any, ...]
"""What must hold: `("is", path)`, the value is the same; `("text", path, other, equal)`, a word compares so;
`("number", operator, left, right, result)` over terms, a number compares so."""
Term = Any
"""A whole number, `("key", path)`, or `(operator, left, right)` over terms."""

_FOLLOWED: frozenset[Path] = frozenset(
    (*filter(None, [section]), key)
    for section, keys in {
        "": "scope safety narration drift uncertainty plan critique",
        "scores": "risk uncertainty",
        "limits": "needs_per_gate malformed_calls verification_rounds",
        "validity": "max_bytes max_depth",
    }.items()
    for key in keys.split()
)
"""Where the numbers are only compared and calculated with. Any other may be used as an index or written down, which
cannot be followed, and counts as read whole."""
ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
}
COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_ORDERS = ("<", "<=", ">", ">=")
_LARGE = 4096
"""Numbers from which a bound that is compared with is noted in steps: a size in bytes is another one in each turn."""
_ROOM = 4096
"""Comparisons, results and readings that are kept, each of its own."""


class PolicyReading:
    """Notes what is read of a policy: `policy` is to be read instead of it.

    Each condition has a number, by which `conditions` lists it: `noted` holds the numbers noted since `begin`.
    """

    def __init__(self, policy: Policy) -> None:
        self.noted: set[int] = set()
        self.conditions: list[Condition] = []
        self._numbers: dict[Condition, int] = {}
        self._known: dict[Hashable, tuple[Any, set[int]]] = {}
        self.policy: Any = _Section(policy, (), self)

    def begin(self) -> set[int]:
        """Note anew; return the numbers noted before."""
        noted, self.noted = self.noted, set()
        return noted

    def enter(self, condition: Condition) -> int:
        """Return the number of a condition, the same each time."""
        number = self._numbers.setdefault(condition, len(self.conditions))
        if number == len(self.conditions):
            self.conditions.append(condition)
        return number

    def note(self, condition: Condition) -> None:
        """Note a condition."""
        self.noted.add(self.enter(condition))

    def list_noted(self) -> set[Condition]:
        """Return the conditions noted since `begin`."""
        return {self.conditions[number] for number in self.noted}

    def remember(self, read: Callable[[Any, Policy], Any], said: Hashable, policy: Policy) -> Any:
        """Return what `read` finds, remembered with what it rests on."""
        return self.repeat((read, said), lambda: read(said, policy))

    def repeat(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return what `find` finds, of the same key what it found the first time, and note what that rests on."""
        if (known := self._known.get(key)) is None:
            before, self.noted = self.noted, set()
            try:
                known = keep(self._known, key, (find(), self.noted))
            finally:
                self.noted, noted = before, self.noted
                self.noted |= noted
        self.noted |= known[1]
        return cast(T, known[0])


class _Section:
    """Stands for a section: what it gives is followed on; whatever else is asked of it counts as reading all of it."""

    def __init__(self, section: PolicySection, path: Path, reading: PolicyReading) -> None:
        self._section, self._path, self._reading = section, path, reading
        self._whole: dict[str, tuple[int, Any]] = {}
        if isinstance(section, Policy):
            self.reading, self.hash = reading, section.hash
        for name, field in type(section).model_fields.items():
            value, here = getattr(section, name), (*path, name)
            if isinstance(value, PolicySection):
                self.__dict__[name] = _Section(value, here, reading)
            elif isinstance(value, dict):
                self.__dict__[name] = _Table(value, here, reading)
            elif type(value) is int and is_followed(here):
                self.__dict__[name] = FollowedNumber(value, reading, ("key", here))
            elif type(value) is str and get_origin(field.annotation) is Literal and len(get_args(field.annotation)) > 1:
                self.__dict__[name] = FollowedWord(value, reading, here)
            elif here == ("rules", "list"):
                # Compared rule by rule, with what is known of each call.
                self.__dict__[name] = value
            else:
                self._whole[name] = reading.enter(("is", here)), value

    def __getattr__(self, name: str) -> Any:
        if (known := self.__dict__["_whole"].get(name)) is not None:
            self._reading.noted.add(known[0])
            return known[1]
        found = getattr(type(self._section), name, None)
        if isinstance(found, cached_property):
            return found.func(self)
        if isinstance(found, property) and found.fget is not None:
            return found.fget(self)
        self._reading.note(("is", self._path))
        return getattr(self._section, name)

    def __eq__(self, other: object) -> bool:
        self._reading.note(("is", self._path))
        return bool(self._section == (other._section if isinstance(other, _Section) else other))

    __hash__ = object.__hash__


class _Table(Mapping[Any, Any]):
    """Stands for a mapping: an entry that is looked up is noted, also one that is not there; else all of it is."""

    def __init__(self, table: Mapping[Any, Any], path: Path, reading: PolicyReading) -> None:
        self._table, self._path, self._reading = table, path, reading
        self._given: dict[Any, tuple[int | None, Any]] = {}

    def __getitem__(self, key: Any) -> Any:
        if key not in self._given:
            condition, value = self._follow(key)
            self._given[key] = self._reading.enter(condition) if condition is not None else None, value
        number, value = self._given[key]
        if number is not None:
            self._reading.noted.add(number)
        if value is _MISSING:
            raise KeyError(key)
        return value

    def _follow(self, key: Any) -> tuple[Condition | None, Any]:
        here = (*self._path, str(getattr(key, "value", key)))
        value = self._table.get(key, _MISSING)
        if type(value) is int and is_followed(here):
            return None, FollowedNumber(value, self._reading, ("key", here))
        if isinstance(value, PolicySection):
            return ("there", here), _Section(value, here, self._reading)
        return ("is", here), value

    def get(self, key: Any, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        return self.get(key, _MISSING) is not _MISSING

    def __iter__(self) -> Iterator[Any]:
        self._reading.note(("is", self._path))
        return iter(self._table)

    def __len__(self) -> int:
        self._reading.note(("is", self._path))
        return len(self._table)

    def __eq__(self, other: object) -> bool:
        self._reading.note(("is", self._path))
        inner = other._table if isinstance(other, _Table) else other
        return self._table is inner or self._table == inner

    __hash__ = object.__hash__


_MISSING: Any = object()


class FollowedNumber(int):
    """A number of the policy, or one calculated from such: comparing it notes how that came out."""

    reading: PolicyReading
    term: Term
    known: dict[Hashable, tuple[Any, Any]]
    """The result of calculating and comparing with others: the same is done over and over."""

    def __new__(cls, value: int, reading: PolicyReading, term: Term) -> FollowedNumber:
        made = super().__new__(cls, value)
        made.reading, made.term, made.known = reading, term, {}
        return made

    def _note_value(self) -> None:
        for path in list_paths(self.term):
            self.reading.note(("is", path))

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __hash__(self) -> int:
        self._note_value()
        return int.__hash__(self)

    def __index__(self) -> int:
        self._note_value()
        return int.__add__(self, 0)

    __int__ = __trunc__ = __index__

    def __float__(self) -> float:
        self._note_value()
        return int.__float__(self)


def _follow_arithmetic(sign: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    operate = ARITHMETIC[sign]

    def calculate_with(self: FollowedNumber, other: int, *, back: bool) -> FollowedNumber:
        followed = isinstance(other, FollowedNumber)
        key = (sign, back, id(other) if followed else other, followed)
        if (found := self.known.get(key)) is None:
            own, beside = (int.__add__(self, 0), self.term), (int.__add__(other, 0), get_term(other))
            (left, one), (right, two) = (beside, own) if back else (own, beside)
            made = FollowedNumber(operate(left, right), self.reading, (sign, one, two))
            # The other is kept, so that its identity stays its own.
            found = keep(self.known, key, (made, other))
        return cast(FollowedNumber, found[0])

    def forth(self: FollowedNumber, other: int) -> Any:
        return calculate_with(self, other, back=False) if isinstance(other, int) else NotImplemented

    def back(self: FollowedNumber, other: int) -> Any:
        return calculate_with(self, other, back=True) if isinstance(other, int) else NotImplemented

    return forth, back


def _follow_comparison(sign: str) -> Callable[..., Any]:
    compare = COMPARISONS[sign]

    def enter_comparison(self: FollowedNumber, other: int) -> tuple[bool, int]:
        own, beside = int.__add__(self, 0), int.__add__(other, 0)
        result, bound = compare(own, beside), get_term(other)
        if own > _LARGE and isinstance(bound, int) and sign in _ORDERS:
            bound = _raise_bound(bound, own)
        return result, self.reading.enter(("number", sign, self.term, bound, result))

    def followed(self: FollowedNumber, other: int) -> Any:
        if type(other) is int:
            if (found := self.known.get((sign, other))) is None:
                found = keep(self.known, (sign, other), enter_comparison(self, other))
        elif isinstance(other, int):
            found = enter_comparison(self, other)
        else:
            return NotImplemented
        self.reading.noted.add(found[1])
        return found[0]

    return followed


def keep(known: dict[Hashable, T], key: Hashable, found: T) -> T:
    """Keep what was found, and little enough at a time; return it."""
    if len(known) >= _ROOM:
        known.clear()
    known[key] = found
    return found


def _raise_bound(bound: int, value: int) -> int:
    """Return a number from `bound` up and below `value`, one of a few: to be above it says more."""
    step = 1 << max(bound, 1).bit_length()
    return step if bound < step < value else bound


for _name, _sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("floordiv", "//")):
    _forth, _back = _follow_arithmetic(_sign)
    setattr(FollowedNumber, f"__{_name}__", _forth)
    setattr(FollowedNumber, f"__r{_name}__", _back)
for _name, _sign in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!=")):
    setattr(FollowedNumber, f"__{_name}__", _follow_comparison(_sign))


class FollowedWord(str):
    """A word of the policy that is one of a few: comparing it notes how that came out."""

    reading: PolicyReading
    path: Path
    known: dict[Hashable, tuple[bool, int]]

    def __new__(cls, value: str, reading: PolicyReading, path: Path) -> FollowedWord:
        made = super().__new__(cls, value)
        made.reading, made.path, made.known = reading, path, {}
        return made

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FollowedWord):
            other.reading.note(("is", other.path))
            self.reading.note(("is", self.path))
            return str.__eq__(self, other)
        if (found := self.known.get(other)) is None:
            equal = str.__eq__(self, other) is True
            found = keep(self.known, other, (equal, self.reading.enter(("text", self.path, other, equal))))
        self.reading.noted.add(found[1])
        return found[0]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        self.reading.note(("is", self.path))
        return str.__hash__(self)

    def __str__(self) -> str:
        self.reading.note(("is", self.path))
        return str.__str__(self)


def is_followed(path: Path) -> bool:
    return any(path[:size] in _FOLLOWED for size in range(1, len(path) + 1))


def get_term(value: int) -> Term:
    """Return the term of a number: its own where it comes of the policy."""
    return value.term if isinstance(value, FollowedNumber) else int.__add__(value, 0)


def list_paths(term: Term) -> list[Path]:
    """Return the keys a term is calculated from."""
    if isinstance(term, int):
        return []
    return [term[1]] if term[0] == "key" else [*list_paths(term[1]), *list_paths(term[2])]


def is_kept(condition: Condition, before: Policy, after: Policy) -> bool:
    """Whether a condition that held under one policy holds under another."""
    match condition:
        case ("is", path):
            return bool(read_value(before, path) == read_value(after, path))
        case ("there", path):
            return read_value(after, path) is not _MISSING
        case ("text", path, other, equal):
            return (read_value(after, path) == other) is equal
        case ("number", sign, left, right, result):
            one, other = calculate(left, after), calculate(right, after)
            return one is not None and other is not None and COMPARISONS[sign](one, other) is result
    return False


def read_value(policy: Policy, path: Path) -> Any:
    """Return what stands in a policy at a path, or a mark of its own where nothing does."""
    value: Any = policy
    for step in path:
        value = value.get(step, _MISSING) if isinstance(value, Mapping) else getattr(value, step, _MISSING)
        if value is _MISSING:
            return _MISSING
    return value


def calculate(term: Term, policy: Policy) -> int | None:
    """Return what a term comes to under a policy, None where one of its keys holds no number."""
    if isinstance(term, int):
        return term
    if term[0] == "key":
        value = read_value(policy, term[1])
        return value if type(value) is int else None
    one, other = calculate(term[1], policy), calculate(term[2], policy)
    if one is None or other is None or (term[0] == "//" and other == 0):
        return None
    return ARITHMETIC[term[0]](one, other)

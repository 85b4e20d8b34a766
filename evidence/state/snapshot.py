"""A session's state as bytes, and back: what its events fold to, so that not all of them need be folded again.

The bytes name no code. They hold values, and by name the classes of the state and of the nouns in it; what names
anything else is no snapshot. Whoever keeps them makes sure that they come back as they were, of the event they name.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from pydantic import BaseModel

from foregate.evidence import ledger, passages, reads
from foregate.evidence.state import conversation, dataflow, earlier, session, steps, task, uses
from foregate.evidence.state.session import SessionState
from foregate.schemas import (
    event,
    event_body,
    judgement,
    message,
    model_response,
    permission,
    plan,
    question,
    recorded_call,
    task_plan,
    tool_call,
    tool_spec,
    turn,
)
from foregate.schemas.errors import UnreadableSnapshot
from foregate.schemas.version import __version__

_STATES = (ledger, passages, reads, conversation, dataflow, earlier, session, steps, task, uses)
_NOUNS = (
    *(event, event_body, judgement, message, model_response, permission, plan, question, recorded_call, task_plan),
    *(tool_call, tool_spec, turn),
)
_Format: TypeAlias = tuple[list[tuple[str, list[str]]], Any]
"""The classes that occur, by name and with their fields, and the state."""
_LONG = 64
"""Characters of a text that is written once, however often the state holds it."""
_PLAIN = {str, int, bool, float, type(None)}
_WIDEST = 2**63
"""What the format has no integers from; longer ones are written as text."""
_SAME, _TEXT, _NUMBER, _LIST, _TUPLE, _SET, _FROZENSET, _DICT, _ORDERED, _COUNTER, _QUEUE, _OBJECT, _ENUM = range(13)
_LISTS: dict[type, int] = {list: _LIST, tuple: _TUPLE, set: _SET, frozenset: _FROZENSET}
_MAPS: dict[type, int] = {dict: _DICT, OrderedDict: _ORDERED, Counter: _COUNTER}
_BUILDERS: dict[int, Callable[[Any], Any]] = {
    **{code: kind for kind, code in _LISTS.items()},
    **{code: kind for kind, code in _MAPS.items()},
}
_MISSING = object()
_VALUES = (msgspec.Struct, Enum, BaseModel, tuple)
"""What a noun is that holds nothing but values."""


def encode_state(state: SessionState) -> bytes:
    """Return the state of a session as bytes; raise ValueError for one that holds what no state should."""
    writer = _Writer()
    try:
        root = writer.write(state)
        return msgspec.msgpack.encode([writer.classes, root])
    except (TypeError, OverflowError, RecursionError, UnicodeError) as error:
        raise ValueError(f"the state of the session cannot be kept: {error}") from None


def decode_state(data: bytes, session: str, seq: int, hash: str) -> SessionState:  # noqa: A002
    """Return the state of a session after the event with this number and hash; raise UnreadableSnapshot for another."""
    try:
        classes, root = msgspec.msgpack.decode(data, type=_Format)
        state = _Reader(classes).read(root)
        is_same = (state.session, state.seq, state.hash) == (session, seq, hash)
    except Exception as error:  # whatever bytes that anybody could have written make of reading them
        raise UnreadableSnapshot(f"{type(error).__name__}: {error}") from None
    if not isinstance(state, SessionState) or not is_same:
        raise UnreadableSnapshot("it is not of this event")
    return state


def is_same_state(one: SessionState, other: SessionState) -> bool:
    """Whether two states hold the same, down to the last value in them."""
    return _is_same(one, other, set())


def _is_same(one: Any, other: Any, seen: set[tuple[int, int]]) -> bool:
    """Compare values; `seen` are the pairs that are compared already, as a state holds some in several places."""
    kind: Any = type(one)
    if type(other) is not kind or one is other:
        return one is other
    if kind in _PLAIN or issubclass(kind, Enum | set | frozenset):
        return bool(one == other)
    if (pair := (id(one), id(other))) in seen:
        return True
    seen.add(pair)
    mine, others = _list_held(one), _list_held(other)
    return len(mine) == len(others) and all(_is_same(*two, seen) for two in zip(mine, others, strict=True))


def _list_held(value: Any) -> list[Any]:
    """Return what a value holds: keys and values, items, or its fields."""
    kind: Any = type(value)
    if kind in _MAPS:
        return [*value, *value.values()]
    if kind in _LISTS or kind is deque:
        return list(value)
    return [getattr(value, name, _MISSING) for name in _list_fields(kind) or vars(value)]


@cache
def find_version() -> str:
    """Return what a snapshot's version must be: this Foregate's, and a hash of the code that makes states of events."""
    digest = sha256()
    for folder in sorted({Path(module.__file__ or "").parent for module in (ledger, session, event)}):
        for file in sorted(folder.glob("*.py")):
            digest.update(file.read_bytes())
    return f"{__version__} {digest.hexdigest()[:16]}"


class _Writer:
    """Writes values one within the other. What stands in several places is written at the first."""

    def __init__(self) -> None:
        self.classes: list[tuple[str, list[str]]] = []
        self._places: dict[type, int] = {}
        self._known: dict[int, int] = {}
        self._kept: list[object] = []

    def write(self, value: Any) -> Any:
        """Return a value as the format has it."""
        kind = type(value)
        if kind in _PLAIN and not (kind is str and len(value) >= _LONG) and not (kind is int and _is_wide(value)):
            return value
        if (number := self._known.get(id(value))) is not None:
            return [_SAME, number]
        if isinstance(value, Enum):
            return [_ENUM, self._find_place(kind, ()), value.name]
        written = self._write_new(kind, value)
        self._known[id(value)] = len(self._kept)
        self._kept.append(value)
        return written

    def _write_new(self, kind: type, value: Any) -> list[Any]:
        if kind is str:
            return [_TEXT, value]
        if kind is int:
            return [_NUMBER, str(value)]
        if (code := _LISTS.get(kind)) is not None:
            return [code, self._write_all(value)]
        if (code := _MAPS.get(kind)) is not None:
            return [code, self._write_all(value), self._write_all(value.values())]
        if kind is deque:
            return [_QUEUE, value.maxlen, self._write_all(value)]
        names = _list_fields(kind) or tuple(vars(value))
        return [_OBJECT, self._find_place(kind, names), [self.write(getattr(value, name)) for name in names]]

    def _write_all(self, values: Iterable[Any]) -> list[Any]:
        found = list(values)
        return found if _is_plain(found) else [self.write(value) for value in found]

    def _find_place(self, kind: type, names: tuple[str, ...]) -> int:
        """Return the place of a class in the list of those that occur; one is listed with the fields it has."""
        if kind not in self._places:
            if _list_classes().get(_name_class(kind)) is not kind:
                raise TypeError(f"`{_name_class(kind)}` is no part of a state")
            self._places[kind] = len(self.classes)
            self.classes.append((_name_class(kind), list(names)))
        return self._places[kind]


class _Reader:
    """Reads what a writer wrote; `classes` are those that occur, by name, and their fields."""

    def __init__(self, classes: list[tuple[str, list[str]]]) -> None:
        known = _list_classes()
        self._classes = [(known[name], names) for name, names in classes]
        for kind, names in self._classes:
            expected = _list_fields(kind)
            if (expected and tuple(names) not in (expected, ())) or any(name.startswith("__") for name in names):
                raise UnreadableSnapshot(f"`{kind.__qualname__}` has other fields")
        self._kept: list[Any] = []

    def read(self, found: Any) -> Any:
        """Return the value that was written."""
        if type(found) is not list:
            if type(found) in _PLAIN:
                return found
            raise UnreadableSnapshot("a value of another kind")
        code = found[0]
        if code == _SAME:
            return self._kept[found[1]]
        if code == _ENUM:
            return self._find_enum(found[1])[found[2]]
        value = self._read_new(code, found)
        self._kept.append(value)
        return value

    def _read_new(self, code: int, found: list[Any]) -> Any:
        if code == _OBJECT:
            return self._build_object(found[1], self._read_all(found[2]))
        if code == _TEXT:
            return str(found[1])
        if code == _NUMBER:
            return int(found[1])
        if code == _QUEUE:
            return deque(self._read_all(found[2]), found[1])
        build = _BUILDERS[code]
        if code in _LISTS.values():
            return build(self._read_all(found[1]))
        return build(dict(zip(self._read_all(found[1]), self._read_all(found[2]), strict=True)))

    def _read_all(self, found: list[Any]) -> list[Any]:
        return found if _is_plain(found) else [self.read(value) for value in found]

    def _find_enum(self, place: int) -> Any:
        kind = self._classes[place][0]
        if not issubclass(kind, Enum):
            raise UnreadableSnapshot(f"`{kind.__qualname__}` has no names")
        return kind

    def _build_object(self, place: int, values: list[Any]) -> Any:
        kind, names = self._classes[place]
        given = dict(zip(names, values, strict=True))
        if issubclass(kind, msgspec.Struct | BaseModel | tuple):
            return kind(**given)
        made = object.__new__(kind)
        for name, value in given.items():
            object.__setattr__(made, name, value)
        return made


def _is_wide(value: int) -> bool:
    return not -_WIDEST <= value < _WIDEST


def _is_plain(values: list[Any]) -> bool:
    """Whether values stand for themselves, none of them a long text or a large number."""
    kinds = set(map(type, values))
    if not kinds <= _PLAIN:
        return False
    if str in kinds and any(type(value) is str and len(value) >= _LONG for value in values):
        return False
    return int not in kinds or not any(type(value) is int and _is_wide(value) for value in values)


@cache
def _list_fields(kind: type) -> tuple[str, ...]:
    """Return what a class says its fields are, none where its objects have whatever was set."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if issubclass(kind, BaseModel):
        return tuple(kind.model_fields)
    if issubclass(kind, tuple):
        return tuple(getattr(kind, "_fields", ()))
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


@cache
def _list_classes() -> dict[str, type]:
    """Return the classes that a snapshot may name: those of the state, and the nouns that are recorded."""
    found: dict[str, type] = {}
    for module in (*_STATES, *_NOUNS):
        for name, kind in vars(module).items():
            is_own = isinstance(kind, type) and kind.__module__ == module.__name__ and name == kind.__qualname__
            if is_own and (module in _STATES or issubclass(kind, _VALUES)):
                found[_name_class(kind)] = kind
    return found


def _name_class(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"

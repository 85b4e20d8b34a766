"""A session's state as bytes, and back: what its events fold to, so that not all of them need be folded again.

The types of the fields say what is written and read. So the bytes name no code, and whoever keeps them makes sure that
they come back unchanged, with the event they belong to.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, get_origin

import msgspec
from msgspec.structs import replace
from pydantic import BaseModel

from foregate.evidence import ledger
from foregate.evidence.state import session
from foregate.evidence.state.session import SessionState
from foregate.schemas import event, strict_json
from foregate.schemas.errors import UnreadableSnapshot
from foregate.schemas.version import __version__

_LONG_INTEGER = 1
"""The extension of MessagePack for an integer of more than 64 bits, as its digits: arguments of a call may hold one."""
_PLAIN = {str, int, bool, float, type(None)}


def encode_state(state: SessionState) -> bytes:
    """Return the state of a session as bytes; raise ValueError for one that holds what no state should."""
    try:
        try:
            return _ENCODER.encode(state)
        except OverflowError:
            return _ENCODER.encode(_write_long_integers(state))
    except (TypeError, RecursionError, UnicodeError) as error:
        raise ValueError(f"the state of the session cannot be kept: {error}") from None


def decode_state(data: bytes, session: str, seq: int, hash: str) -> SessionState:  # noqa: A002
    """Return the state of a session after the event with this number and hash; raise UnreadableSnapshot for another."""
    try:
        state = _build_decoder().decode(data)
    except Exception as error:
        # Whatever bytes that anybody could have written make of reading them.
        raise UnreadableSnapshot(f"{type(error).__name__}: {error}") from None
    if (state.session, state.seq, state.hash) != (session, seq, hash):
        raise UnreadableSnapshot("it is not of this event")
    return state


def is_same_state(one: SessionState, other: SessionState) -> bool:
    """Whether two states hold the same, down to the last value in them."""
    return _is_same(one, other)


@cache
def find_version() -> str:
    """Return what a snapshot's version must be: this Foregate's, and a hash of the code that makes states of events."""
    digest = sha256()
    for folder in sorted({Path(module.__file__ or "").parent for module in (ledger, session, event)}):
        for file in sorted(folder.glob("*.py")):
            digest.update(file.read_bytes())
    return f"{__version__} {digest.hexdigest()[:16]}"


@cache
def _build_decoder() -> msgspec.msgpack.Decoder[SessionState]:
    return msgspec.msgpack.Decoder(SessionState, dec_hook=_read_value, ext_hook=_read_long_integer)


def _read_value(kind: Any, found: Any) -> Any:
    """Return a value of a kind that msgspec does not read by itself."""
    made = get_origin(kind)
    return made(found) if made in (Counter, OrderedDict) else strict_json.read_model(kind, found)


def _write_model(value: Any) -> Any:
    if not isinstance(value, BaseModel):
        raise TypeError(f"`{type(value).__qualname__}` is no part of a state")
    return value.model_dump(mode="json", exclude_defaults=True)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_write_model)


def _read_long_integer(code: int, digits: memoryview) -> int:
    if code != _LONG_INTEGER:
        raise ValueError("an extension of another kind")
    return int(bytes(digits))


def _write_long_integers(value: Any) -> Any:
    """Return a value that is written the same, but for the integers of more than 64 bits in it."""
    kind: Any = type(value)
    if kind is int and not -(2**63) <= value < 2**63:
        return msgspec.msgpack.Ext(_LONG_INTEGER, str(value).encode())
    if isinstance(value, dict):
        return {key: _write_long_integers(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_write_long_integers, value))
    if isinstance(value, msgspec.Struct):
        return replace(value, **{name: _write_long_integers(getattr(value, name)) for name in kind.__struct_fields__})
    if is_dataclass(kind):
        return {one.name: _write_long_integers(getattr(value, one.name)) for one in fields(kind)}
    return value


def _is_same(one: Any, other: Any, *, in_noun: bool = False) -> bool:
    """Compare values. In a noun a map is JSON, which the log has in an order of its own."""
    kind: Any = type(one)
    if type(other) is not kind or one is other:
        return one is other
    if kind in _PLAIN or issubclass(kind, Enum | set | frozenset | BaseModel):
        return bool(one == other)
    if in_noun and kind is dict:
        return one.keys() == other.keys() and all(_is_same(one[key], other[key], in_noun=True) for key in one)
    mine, others, in_noun = _list_held(one), _list_held(other), in_noun or isinstance(one, msgspec.Struct)
    return len(mine) == len(others) and all(map(partial(_is_same, in_noun=in_noun), mine, others))


def _list_held(value: Any) -> list[Any]:
    """Return what a value holds: keys and values, items, or its fields."""
    kind: Any = type(value)
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, list | tuple):
        return list(value)
    names = kind.__struct_fields__ if isinstance(value, msgspec.Struct) else [one.name for one in fields(kind)]
    return [getattr(value, name) for name in names]

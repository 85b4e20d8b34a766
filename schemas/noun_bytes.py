"""The canonical bytes of the nouns that are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, get_args

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, astuple
from pydantic import BaseModel

from foregate.schemas import strict_json
from foregate.schemas.noun import Noun
from foregate.schemas.strict_json import Json

Get = Callable[[Any], Any]


def encode_noun(noun: Noun) -> bytes:
    """Return the canonical bytes of what `dump` returns of a noun, without the steps between.

    Raises TypeError, ValueError or RecursionError for what JSON cannot say.
    """
    bare, doubtful, parts = describe_noun(type(noun))
    data = _ENCODER.encode(bare(*astuple(noun)))
    # So the encoder writes a number that is not finite, too.
    doubt = b"null" in data
    for get, default in doubtful:
        value = get(noun)
        doubt = doubt or (value == default and value is not default and type(value) is not dict)
    for get, written in parts:
        doubt = doubt or (get(noun) and written in data)
    return strict_json.encode_record(strict_json.dump(noun)) if doubt else data


@cache
def describe_noun(noun: type[Noun]) -> tuple[type[Struct], list[tuple[Get, Any]], list[tuple[Get, bytes]]]:
    """Return a class with the fields of `noun` and without its tag, and where the encoder may not leave out a default.

    It leaves out what is the very object that the default is, and an empty dict. Of None, 0, "" and the members of an
    enumeration there is only one. Any other default is returned, a word of a Literal, too, since who reads a policy
    may make one anew: with what gets its field, or with what gets the field that holds it in its parts, as it would be
    written there. So is the tag of a part.
    """
    fields = msgspec.structs.fields(noun)
    named = [(f"field{at}", Any, _copy_field(one)) for at, one in enumerate(fields)]
    bare = msgspec.defstruct(noun.__name__, named, omit_defaults=True, gc=False)
    return bare, list(_list_doubtful(noun, "")), list(_list_parts(noun, ""))


def _copy_field(one: FieldInfo) -> Any:
    if one.default_factory is not NODEFAULT:
        return msgspec.field(default_factory=one.default_factory, name=one.encode_name)
    return msgspec.field(default=_NOTHING if one.required else one.default, name=one.encode_name)


def _list_doubtful(noun: type[Struct], path: str) -> Iterator[tuple[Get, Any]]:
    """Yield what gets each doubtful field of a noun, and of the nouns it always has, and its default."""
    for one in msgspec.structs.fields(noun):
        if _is_doubtful(one):
            yield attrgetter(f"{path}{one.name}"), _find_default(one)
        if _is_noun(one.type):
            yield from _list_doubtful(one.type, f"{path}{one.name}.")


def _list_parts(noun: type[Struct], path: str) -> Iterator[tuple[Get, bytes]]:
    """Yield what gets each other field with nouns, and how their doubtful defaults would be written."""
    for one in msgspec.structs.fields(noun):
        if _is_noun(one.type) and one.type.__struct_config__.tag is None:
            yield from _list_parts(one.type, f"{path}{one.name}.")
        else:
            yield from ((attrgetter(f"{path}{one.name}"), text) for text in set(_list_written(one.type, set())))


def _list_written(kind: Any, seen: set[Any]) -> Iterator[bytes]:
    if _is_noun(kind) and kind not in seen:
        seen.add(kind)
        # `dump` leaves it out.
        if kind.__struct_config__.tag is not None:
            yield strict_json.encode_record({kind.__struct_config__.tag_field: kind.__struct_config__.tag})[1:-1]
        for one in msgspec.structs.fields(kind):
            yield from _list_written(one.type, seen)
            if _is_doubtful(one):
                default = _find_default(one)
                value = strict_json.dump(default) if isinstance(default, Struct) else default
                yield strict_json.encode_record({one.encode_name: value})[1:-1]
    for inner in get_args(kind):
        yield from _list_written(inner, seen)


def _is_noun(kind: Any) -> bool:
    """Whether a type is a noun; raise TypeError for a struct that is none, and so would be written whole."""
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        return False
    if not issubclass(kind, Noun):
        raise TypeError(f"`{kind.__name__}` is a part of what is recorded; derive it from Noun")
    return True


def _is_doubtful(one: FieldInfo) -> bool:
    """Whether something else than the default of a field may equal it."""
    default = _find_default(one)
    if one.required or default is None or isinstance(default, (bool, Enum)) or default in ("", ()):
        return False
    return default not in range(-5, 257)


def _find_default(one: FieldInfo) -> Any:
    return one.default if one.default_factory is NODEFAULT else one.default_factory()


def _write_other(value: object) -> Json:
    """Return what the encoder does not know by itself: a mapping that is no dict, and what pydantic checks."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"`{type(value).__name__}` cannot be recorded")


_NOTHING = object()
_ENCODER = msgspec.json.Encoder(order="sorted", enc_hook=_write_other)

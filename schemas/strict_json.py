"""Strict JSON: what we read from models, tools and files, the canonical bytes we hash, and nouns as recorded values.

Reading refuses duplicate keys, NaN and infinities, lone surrogates, oversize, depth and integers of more
than 4,300 digits (the limit of Python's own converter, kept because conversion is quadratic).
Writing follows RFC 8785; integers beyond 2^53, where the RFC gives up, are written as their digits.
Each `get_` function returns the field `key` of an object whose shape nothing has checked, or `default` where it has no
such field or null there; without a default a missing field raises InvalidJson, as does a field of another type.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from functools import cache
from itertools import compress
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, TypeVar, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import astuple
from pydantic import BaseModel, ValidationError

from foregate.schemas.errors import InvalidJson
from foregate.schemas.late_pattern import compile_late

if TYPE_CHECKING:
    Json: TypeAlias = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None
else:
    # Msgspec reads annotations as the program runs, and cannot resolve one that names itself.
    Json = Any
"""Any value made of dict, list, str, int, float, bool and None."""

MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 64
MAX_DIGITS = 4300
MAX_RECORD_DEPTH = 200


def parse(text: str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Json:
    """Return the value `text` holds; raise InvalidJson with one sentence for anything that is not strict JSON."""
    if len(text) > max_bytes or (len(text) * 4 > max_bytes and len(text.encode("utf-8", "surrogatepass")) > max_bytes):
        raise InvalidJson(f"the JSON is larger than {max_bytes} bytes; send less")
    if is_too_deep(text, max_depth):
        raise InvalidJson(f"the JSON is nested deeper than {max_depth}; flatten it")
    try:
        value: Json = _DECODER.decode(text)
    except RecursionError:
        raise InvalidJson(f"the JSON is nested deeper than {max_depth}; flatten it") from None
    except ValueError as error:
        raise InvalidJson(f"not valid JSON: {error}") from None
    if "\\u" in text or not text.isascii():
        _refuse_surrogates(value)
    return value


def canonical(value: Json) -> bytes:
    """Return the RFC 8785 bytes of `value`; raise InvalidJson where there are none (NaN, lone surrogates)."""
    try:
        data = _ENCODER.encode(value)
        if (data.isascii() and not _DOUBTFUL.search(data)) or _is_plain(value):
            return data
        return _write_value(value).encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidJson("a text holds a lone surrogate, which has no UTF-8 form; remove it") from None


def encode_record(value: Json) -> bytes:
    """Return the canonical bytes of a value known to hold no floats and only ASCII keys: what the log stores.

    Raises TypeError, ValueError or RecursionError for what JSON cannot say.
    """
    data = _ENCODER.encode(value)
    # So the encoder writes a number that is not finite, too.
    if b"null" in data:
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            raise ValueError("a number is not finite; use a finite one") from None
    return data


def decode_record(text: str) -> Json:
    """Return the value a line of the log holds; raise InvalidJson when it is no JSON, or too deep to walk."""
    if is_too_deep(text):
        raise InvalidJson(f"it is nested deeper than {MAX_RECORD_DEPTH}")
    try:
        value: Json = _RECORDS.decode(text)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidJson(f"it is not JSON: {error}") from None
    return value


def is_too_deep(text: str, limit: int = MAX_RECORD_DEPTH) -> bool:
    """Whether brackets outside strings nest deeper than `limit`, by default than anything Foregate writes."""
    # Cheap when there are few brackets at all.
    if text.count("[") + text.count("{") <= limit:
        return False
    outside = "".join(_ESCAPE.sub("", text).split('"')[::2])
    depth = 0
    for bracket in _BRACKET.findall(outside):
        depth += 1 if bracket in "[{" else -1
        if depth > limit:
            return True
    return False


def sha256(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest(value: Json) -> str:
    """Return the SHA-256 over the canonical bytes of `value`."""
    return sha256(canonical(value))


def scrub(text: str) -> str:
    """Return `text` with lone surrogates replaced by U+FFFD, so that it can be stored and sent."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def scrub_json(value: Json) -> Json:
    """Return a value with every text in it scrubbed; whoever writes it has bounded its depth."""
    if isinstance(value, Mapping):
        return {scrub(key): scrub_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [scrub_json(item) for item in value]
    return scrub(value) if isinstance(value, str) else value


def scrub_escapes(text: str) -> str:
    """Return JSON text in which each escape of a lone surrogate is one of U+FFFD: how others write a cut emoji."""
    return _SURROGATES.sub(lambda found: found[0] if found[1] is None else "\\ufffd", text) if "\\u" in text else text


def _refuse_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidJson(f"the key `{key[:80]}` appears twice in one object; keep one")
            seen.add(key)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidJson(f"`{name}` is not a JSON number; use a finite one")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidJson(f"the number `{text[:40]}` is too large for a double; use a smaller one")
    return number


def _parse_bounded_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise InvalidJson(f"an integer has more than {MAX_DIGITS} digits; send it as text")
    return int(text)


def _refuse_surrogates(value: Json) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidJson("a text holds a lone surrogate; send whole characters") from None


def _is_plain(value: Json) -> bool:
    """Whether the encoder's sorted output is already RFC 8785: no floats, and keys whose order is that of UTF-16."""
    stack = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is str or kind is int or kind is bool or item is None:
            continue
        if isinstance(item, float):
            return False
        # lists first: asking whether one is a `Mapping` runs Python code
        if isinstance(item, (list, tuple)):
            stack.extend(item)
        elif isinstance(item, (dict, Mapping)):
            for key, inner in item.items():
                if not key.isascii() and max(key) > _SAME_ORDER:
                    return False
                stack.append(inner)
    return True


def _write_value(value: Json) -> str:
    if isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return f"{{{','.join(f'{_quote(key)}:{_write_value(value[key])}' for key in keys)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_write_value, value))}]"
    return _format_number(value) if isinstance(value, float) else _quote(value)


def _quote(value: Json) -> str:
    """Return a text, an integer, a truth value or None as JSON."""
    return _ENCODER.encode(value).decode("utf-8")


def _format_number(number: float) -> str:
    """Format a double as ECMAScript does (RFC 8785 section 3.2.2.3); Python's repr has the same digits."""
    if not math.isfinite(number):
        raise InvalidJson("a number is not finite; use a finite one")
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    # Not normalized, which rounds as a host's context says.
    _, numerals, exponent = Decimal(repr(number)).as_tuple()
    digits, point = "".join(map(str, numerals)).rstrip("0"), len(numerals) + int(exponent)
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{point - 1:+d}"


_DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates,
    parse_constant=_refuse_constant,
    parse_float=_parse_finite,
    parse_int=_parse_bounded_int,
)
_ENCODER = msgspec.json.Encoder(order="deterministic")
_SAME_ORDER = "\ud7ff"
"""Up to this character texts stand in the same order by their characters, as UTF-8 and as UTF-16."""
_RECORDS = msgspec.json.Decoder()
_DOUBTFUL = compile_late(rb"[0-9][.e]|null")
"""Bytes that a float may have become: `1.5`, `1e30`, and `null` for one that is not finite."""
# '\"': an escaped quote ends no text, so escapes go before brackets outside of texts are counted.
_ESCAPE = compile_late(r"\\.", re.DOTALL)
# "\ud83d\ude00" is a whole pair and stays; "\ud83d" alone is no character, and UTF-8 cannot hold it.
_SURROGATES = compile_late(r"\\\\|\\u[dD][89abAB].{2}\\u[dD][c-fC-F].{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})")
# "[", "}".
_BRACKET = compile_late(r"[\[\]{}]")


Scalar = TypeVar("Scalar", str, int, bool)


def get_text(value: Json, key: str, default: str | None = None) -> str:
    return _get(value, key, str, default)


def get_int(value: Json, key: str, default: int | None = None) -> int:
    """Return an integer; true and false are none."""
    return _get(value, key, int, default)


def get_bool(value: Json, key: str, default: bool | None = None) -> bool:
    return _get(value, key, bool, default)


def get_list(value: Json, key: str) -> Sequence[Json]:
    """Return a list, an empty one where the key is missing."""
    found = as_object(value).get(key)
    if found is None:
        return ()
    if not isinstance(found, (list, tuple)):
        raise InvalidJson(f"`{key}` is not a list")
    return found


def get_object(value: Json, key: str) -> Mapping[str, Json]:
    """Return an object, an empty one where the key is missing."""
    found = as_object(value).get(key)
    return {} if found is None else as_object(found, key)


def as_object(value: Json, name: str = "the value") -> Mapping[str, Json]:
    """Return `value`, which must be an object; `name` is what the sentence calls it."""
    # A dict is told without asking the class.
    if not isinstance(value, (dict, Mapping)):
        raise InvalidJson(f"`{name}` is not an object")
    return value


def as_texts(value: Json, name: str = "the value") -> tuple[str, ...]:
    """Return the items of a list of texts; `name` is what the sentence calls it."""
    if not (isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)):
        raise InvalidJson(f"`{name}` is not a list of texts")
    return tuple(value)


def _get(value: Json, key: str, kind: type[Scalar], default: Scalar | None) -> Scalar:
    found = (value if type(value) is dict else as_object(value)).get(key)
    if found is None and default is not None:
        return default
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise InvalidJson(f"`{key}` is missing" if found is None else f"`{key}` is not {_NAMES[kind]}")
    return found


_NAMES = {str: "a text", int: "an integer", bool: "true or false"}


T = TypeVar("T")
Writer = Callable[[Any], Json]


def dump(value: Struct, *, exclude: frozenset[str] = frozenset()) -> dict[str, Json]:
    """Return `value` as plain JSON values, without the fields named in `exclude`.

    What equals its default is left out, whoever made it. (The library's own way compares identity, so that equal nouns
    could differ in bytes.)
    """
    fields, defaults = _describe_fields(type(value))
    items: tuple[Any, ...] = astuple(value)
    found: dict[str, Json] = {}
    # most fields are the very default, and passed over without a step of Python for each
    for item, (name, key, default, write) in compress(zip(items, fields, strict=True), map(is_not, items, defaults)):
        if item != default and name not in exclude:
            found[key] = item if write is None else write(item)
    return found


def load(noun: type[T], data: Json) -> T:
    """Return the noun `data` describes; raise InvalidJson naming the first defect."""
    try:
        return msgspec.convert(data, noun, dec_hook=read_model)
    except msgspec.ValidationError as error:
        raise InvalidJson(f"not a {noun.__name__}: {error}") from None


def read_model(kind: type, data: Json) -> Any:
    """Read what a planner writes, which pydantic checks."""
    if not issubclass(kind, BaseModel):
        raise NotImplementedError(f"`{kind.__name__}` is no noun")
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


@cache
def _describe_fields(noun: type[Struct]) -> tuple[list[tuple[str, str, Any, Writer | None]], list[Any]]:
    """Return of each field its name, its key, its default (one that equals nothing where it has none), its writer; and
    the defaults once more."""
    fields = msgspec.structs.fields(noun)
    defaults = [one.default if one.default_factory is NODEFAULT else one.default_factory() for one in fields]
    described = [
        (one.name, one.encode_name, default, _find_writer(one.type))
        for one, default in zip(fields, defaults, strict=True)
    ]
    return described, defaults


@cache
def _find_writer(kind: Any) -> Writer | None:
    """Return what writes a value of a field's type, None where the value is JSON already."""
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return dump
    if isinstance(kind, type) and issubclass(kind, Enum):
        # `value` would be looked up by Python code.
        return attrgetter("_value_")
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return lambda item: item.model_dump(mode="json", exclude_defaults=True)
    if kind in (str, int, bool, type(None)) or origin is Literal:
        return None
    if origin is tuple and inner[1:] == (...,):
        return _write_each(_find_writer(inner[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _write_every(_find_writer(inner[1]))
    options = [option for option in inner if option is not type(None)]
    return _write_optional(_find_writer(options[0])) if len(options) == 1 else msgspec.to_builtins


def _write_each(inner: Writer | None) -> Writer:
    return list if inner is None else lambda items: list(map(inner, items))


def _write_every(inner: Writer | None) -> Writer:
    return dict if inner is None else lambda items: {name: inner(item) for name, item in items.items()}


def _write_optional(inner: Writer | None) -> Writer | None:
    return None if inner is None else lambda item: None if item is None else inner(item)

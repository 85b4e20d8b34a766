"""Strict JSON: what we read from models, tools and files, and the canonical bytes we hash.

Reading refuses duplicate keys, NaN and infinities, lone surrogates, oversize, depth and integers of more
than 4,300 digits (the limit of Python's own converter, kept because conversion is quadratic).
Writing follows RFC 8785; integers beyond 2^53, where the RFC gives up, are written as their digits.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import msgspec

from foregate.schemas.errors import InvalidJson

if TYPE_CHECKING:
    Json: TypeAlias = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None
else:
    Json = Any  # msgspec reads annotations as the program runs, and cannot resolve one that names itself
"""Any value made of dict, list, str, int, float, bool and None."""

MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 64
MAX_DIGITS = 4300
MAX_RECORD_DEPTH = 200


def parse(text: str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Json:
    """Return the value `text` holds; raise InvalidJson with one sentence for anything that is not strict JSON."""
    if len(text) > max_bytes or (len(text) * 4 > max_bytes and len(text.encode("utf-8", "surrogatepass")) > max_bytes):
        raise InvalidJson(f"the JSON is larger than {max_bytes} bytes; send less")
    if _is_deeper_than(text, max_depth):
        raise InvalidJson(f"the JSON is nested deeper than {max_depth}; flatten it")
    try:
        value: Json = _DECODER.decode(text)
    except InvalidJson:
        raise
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
        if _is_plain(value):
            return _ENCODER.encode(value)
        return "".join(_write_value(value)).encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidJson("a text holds a lone surrogate, which has no UTF-8 form; remove it") from None


def encode_record(value: Json) -> bytes:
    """Return the canonical bytes of a value known to hold no floats and only ASCII keys: what the log stores.

    Raises TypeError, ValueError or RecursionError for what JSON cannot say.
    """
    data = _ENCODER.encode(value)
    if b"null" in data:  # so the encoder writes a number that is not finite, too
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


def is_too_deep(text: str) -> bool:
    """Whether a line of the log is nested deeper than anything Foregate writes."""
    return _is_deeper_than(text, MAX_RECORD_DEPTH)


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


def scrub_escapes(text: str) -> str:
    """Return JSON text in which each escape of a lone surrogate is one of U+FFFD: how others write a cut emoji."""
    return _SURROGATES.sub(lambda found: found[0] if found[1] is None else "\\ufffd", text) if "\\u" in text else text


def _is_deeper_than(text: str, limit: int) -> bool:
    """Whether brackets outside strings nest deeper than `limit`; cheap when there are few brackets at all."""
    if text.count("[") + text.count("{") <= limit:
        return False
    outside = "".join(_ESCAPE.sub("", text).split('"')[::2])
    depth = 0
    for bracket in _BRACKET.findall(outside):
        depth += 1 if bracket in "[{" else -1
        if depth > limit:
            return True
    return False


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
    """Whether the standard encoder's sorted output is already RFC 8785: no floats, ASCII keys."""
    stack = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is str or kind is int or kind is bool or item is None:
            continue
        if isinstance(item, float):
            return False
        if isinstance(item, (dict, Mapping)):
            for key, inner in item.items():
                if not key.isascii():
                    return False
                stack.append(inner)
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
    return True


def _write_value(value: Json) -> list[str]:
    if isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        inner = [f"{_quote(key)}:{''.join(_write_value(value[key]))}" for key in keys]
        return ["{", ",".join(inner), "}"]
    if isinstance(value, (list, tuple)):
        return ["[", ",".join("".join(_write_value(item)) for item in value), "]"]
    if isinstance(value, float):
        return [_format_number(value)]
    return [_quote(value)]


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
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    head = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{sign}{head}e{point - 1:+d}"


_DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates,
    parse_constant=_refuse_constant,
    parse_float=_parse_finite,
    parse_int=_parse_bounded_int,
)
_ENCODER = msgspec.json.Encoder(order="deterministic")
_RECORDS = msgspec.json.Decoder()
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_SURROGATES = re.compile(r"\\\\|\\u[dD][89abAB].{2}\\u[dD][c-fC-F].{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})")
_BRACKET = re.compile(r"[\[\]{}]")

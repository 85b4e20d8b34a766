"""Which values are of one sort, so that one could stand where the other stands; pure."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from foregate.schemas.value import Value, read_forms

_ACCOUNT = 6
"""Digits from which a number is the name of something."""
_NO_YEAR = "--"
"""How a date without a year begins, as in `--05-20`."""


def says(form: Value, value: Value) -> bool:
    """Whether what was written says a value: it is the same, or a day whose year one of both leaves out."""
    if form == value:
        return True
    if not form.kind == value.kind == "moment" or _NO_YEAR not in (form.normal[:2], value.normal[:2]):
        return False
    return form.normal[-5:] == value.normal[-5:] and ":" not in form.normal + value.normal


def has_form(forms: Iterable[Value], value: Value) -> bool:
    """Whether one of the ways to read a text says a value."""
    return any(says(form, value) for form in forms)


def is_same_kind(one: Value, other: Value) -> bool:
    return one.kind == other.kind and (one.kind != "moment" or _get_shape(one) == _get_shape(other))


def _get_shape(moment: Value) -> tuple[bool, bool]:
    """Return whether a moment has a date, and whether a time."""
    return "-" in moment.normal, ":" in moment.normal


def are_alike(one: Value, other: Value) -> bool:
    return is_same_shape(one, other) or (one.kind != "words" and is_same_kind(one, other))


def is_same_shape(one: Value, other: Value) -> bool:
    """Whether two values name things of one sort, as two mail addresses or two account numbers do."""
    if one.kind in ("address", "url", "host"):
        return one.kind == other.kind
    if one.kind not in ("words", "number") or not (is_identifier(one) and is_identifier(other)):
        return False
    return max(len(one.normal), len(other.normal)) <= 2 * min(len(one.normal), len(other.normal))


def is_identifier(value: Value) -> bool:
    """Whether a value is the number or the code of a thing, such as `R-71` or an account."""
    digits = sum(letter.isdecimal() for letter in value.normal)
    if value.kind == "number":
        return value.normal.isdecimal() and digits >= _ACCOUNT
    return value.kind == "words" and 0 < digits < len(value.normal) and " " not in value.normal


def read_bare_host(url: str) -> Value | None:
    """Return the host of a web address that names nothing else, None for any other."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or any((parts.path.strip("/"), parts.query, parts.fragment)):
        return None
    return next((form for form in read_forms(parts.netloc) if form.kind == "host"), None)

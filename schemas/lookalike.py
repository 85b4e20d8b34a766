"""Values made to look like others: one letter off, or written with letters of another script."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from foregate.schemas.value import Value, has_mixed_scripts

_HOSTED = ("address", "url", "host")
_TWINS = str.maketrans(
    "01|\u0131i\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u03bf\u03b1\u03bd\u03c1"
    "\u03b9\u03ba\u0442\u043a\u043c\u043d\u0432\u0433",
    "ollllaeopcyxljshdqoavplktkmhbr",
)
"""Letters and digits that many fonts draw like another one."""
_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_SHORTEST = 5
"""Characters of a host that may be compared letter by letter; shorter ones are too often one letter apart."""


def is_lookalike(one: Value, other: Value) -> bool:
    """Whether two different values look the same, or name hosts that are a letter apart.

    >>> is_lookalike(Value("address", "dora@brookfield.example"), Value("address", "dora@brookfie1d.example"))
    True
    """
    if one.kind != other.kind or one == other or one.kind in ("moment", "number"):
        return False
    if one.kind not in _HOSTED:
        marked = any(letter.isdecimal() or not letter.isascii() for letter in one.normal + other.normal)
        return marked and fold_twins(one.normal) == fold_twins(other.normal)
    (before, host), (other_before, other_host) = _split_host(one), _split_host(other)
    if host == other_host:
        return one.kind == "address" and before != other_before and fold_twins(before) == fold_twins(other_before)
    return fold_twins(host) == fold_twins(other_host) or _is_one_letter_off(host, other_host)


def is_disguised(value: Value, text: str) -> bool:
    """Whether a value holds what nobody sees, or is an address with letters of more than one script."""
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Co", "Cs") for letter in value.normal):
        return True
    return value.kind in _HOSTED and (has_mixed_scripts(text) or has_mixed_scripts(_split_host(value)[1]))


@lru_cache(maxsize=4096)
def fold_twins(text: str) -> str:
    """Return a text in which letters that look alike are the same one."""
    bare = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    kept = "".join(letter for letter in bare if unicodedata.category(letter) not in ("Mn", "Cf"))
    folded = kept.translate(_TWINS)
    for pair, single in _PAIRS:
        folded = folded.replace(pair, single)
    return folded


@lru_cache(maxsize=4096)
def _split_host(value: Value) -> tuple[str, str]:
    """Return what stands before the host of a value, and the host with `xn--` names decoded."""
    before, _, host = value.normal.partition("://")[2].partition("/")[0].rpartition("@")
    if value.kind != "url":
        before, _, host = value.normal.rpartition("@")
    labels = host.partition(":")[0].removesuffix(".").split(".")
    return before, ".".join(map(_decode_label, labels))


def _decode_label(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return label


def _is_one_letter_off(one: str, other: str) -> bool:
    """Whether one letter is another, too many, or has changed places; another digit makes another name."""
    if len(one) < len(other):
        one, other = other, one
    if len(other) < _SHORTEST or len(one) - len(other) > 1:
        return False
    start = next((at for at, letter in enumerate(other) if one[at] != letter), len(other))
    if len(one) > len(other):
        return one[start + 1 :] == other[start:]
    if one[start + 1 :] == other[start + 1 :]:
        return not (one[start].isdecimal() and other[start].isdecimal())
    swapped = one[start + 1 : start + 2] + one[start : start + 1]
    return swapped == other[start : start + 2] and one[start + 2 :] == other[start + 2 :]

"""A value of a call as people compare it, freed of how somebody wrote it, and values made to look like others."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from foregate.schemas.late_pattern import compile_late
from foregate.schemas.noun import Noun
from foregate.schemas.strict_json import Json

ValueKind = Literal["address", "url", "host", "path", "moment", "number", "words"]
"""An address of mail, a URL, a host, a path, a date or a time or both, a number, or any other words."""
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


class Value(NamedTuple):
    """A kind and a normal form; two values are the same when both are."""

    kind: ValueKind
    normal: str


Source = Literal["said", "mentioned", "found", "configured", "own", "unsaid", "unclear", "outside"]
"""Who a value of a call comes from, from most to least authority.

- `said`: the person's own words hold it, and nothing else of its kind; each mention is good for one call.
- `mentioned`: the person's own words hold it, but among others of its kind, or it was used up already.
- `found`: it is a whole field of a record that the person's words tell from the others, and nobody outside can write
  that field.
- `configured`: the workspace or the operator named it before the session began.
- `own`: it is such a field of a record that no words of the person's tell from the others.
- `unsaid`: nobody said it, and nothing from outside was read that could have.
- `unclear`: as `mentioned`, and something from outside was read that could say which of them goes where, or have a
  call of high impact made again.
- `outside`: nothing of that, and something from outside was read.
"""


class ArgumentValue(Noun, frozen=True):
    """A value of a call's arguments that says to whom, to what or how much, and where it comes from.

    `path` is its place, such as `to` or `items[0].price`. `role` is what its tool declares of it: `target`, `amount`,
    `choice` for one of a few that it lists, or `value` for nothing. It is `carried` for text of a read that `name`
    names, `lost` for a thing a sandbox removed, `secret` for a file whose secret would leave. `text` is the value,
    shortened as atoms are; `key` is what it is compared by. `seq` is the event that brought it first, 0 for none.
    `words` tell a person the sentence, or the read with its field. `left` says how many more calls the person's
    mentions cover. `record` is where a value stands that was read: tool, field, and the person's words that tell its
    record apart. `name` is also what that record is called. `is_unread` tells of the number or code of a thing that it
    stands in nothing the person said and in nothing that was read.
    """

    path: str
    role: Literal["target", "amount", "value", "choice", "carried", "lost", "secret"]
    text: str
    key: str
    source: Source
    seq: int = 0
    words: str = ""
    left: int = 0
    record: tuple[str, ...] = ()
    name: str = ""
    is_unread: bool = False


# "ann@example.org".
_ADDRESS = compile_late(r"[^\s@/]+@[^\s@/]+\.[^\s@/]+")
# "https://example.org/a".
_URL = compile_late(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
# "example.org:8080", "192.0.2.7".
_HOST = compile_late(
    r"(?:(?:[\w-]+\.)+(?:[^\W\d_]{2,}|xn--[\w-]+)|(?a:\d{1,3}(?:\.\d{1,3}){3}))(?::\d+)?", re.IGNORECASE
)
# "./src/a.py", "src/a.py", "notes.txt".
_PATH = compile_late(r"\.{0,2}/\S*|[^\s/]+(?:/[^\s/]*)+|[^\s/.]+\.[^\W\d_]\w{0,7}")
# "2026-03-01", "2026/3/1 10:00"; the same sign on both sides, so that "2026-03/01" is no date.
_DATE = compile_late(r"(\d{4})([-/.])(\d\d?)\2(\d\d?)(?:[T ]+(.+))?", re.ASCII)
# "1.3.2026".
_DATE_BACKWARDS = compile_late(r"(\d\d?)([/.])(\d\d?)\2(\d{4})(?: +(.+))?", re.ASCII)
# "10:30", "10:30:05 pm", "10:30Z".
_TIME = compile_late(
    r"(\d\d?)(?::(\d\d)(?::(\d\d)(?:\.\d+)?)?)?(?: ?([ap])\.?m\.?)?(?: ?Z|[+-]\d\d:?\d\d)?", re.ASCII | re.IGNORECASE
)
_NUMBERS = {
    # "1,234.50", "12,34,567" as in India.
    ".": compile_late(
        r"[+-]?(?:\d+|\d{1,3}(?:([,'\u2019 ])\d{3})(?:\1\d{3})*|\d\d?(?:,\d\d)+,\d{3})(?:\.\d+)?", re.ASCII
    ),
    # "1.234,50", "1 234,50".
    ",": compile_late(r"[+-]?(?:\d+|\d{1,3}(?:([.'\u2019 ])\d{3})(?:\1\d{3})*)(?:,\d+)?", re.ASCII),
}
_CODE = r"(?:USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN|dollars?|euros?|pounds?)"
# "EUR 12", "12 dollars": what stays is the number.
_CURRENCY = compile_late(rf"{_CODE} ?(?=[\d+-])|(?<=\d) ?{_CODE}", re.IGNORECASE)
_LONGEST = 160
_EDGES = ".,:;!?\"'`()[]{}<>\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb"
_ONE_SCRIPT = dict.fromkeys(("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"), "CJK")


def read_value(given: Json) -> Value | None:
    """Return what an argument or a field says, None for what says nothing: an empty text, a truth value, null.

    >>> read_value("Bob@Example.ORG")
    Value(kind='address', normal='bob@example.org')
    >>> read_value(10.0), read_value("$1,200.50")
    (Value(kind='number', normal='10'), Value(kind='number', normal='1200.5'))
    """
    if isinstance(given, bool) or given is None:
        return None
    if isinstance(given, int | float):
        # By the digits it is written with: a double holds 0.1 as a longer fraction.
        number = Decimal(given) if isinstance(given, int) else Decimal(repr(given))
        return Value("number", _format_number(format(number, "f")))
    if not isinstance(given, str):
        return None
    return next(iter(read_forms(given)), None)


def read_forms(text: str) -> Iterator[Value]:
    """Yield each way to read a text as one value, the likeliest first; `1.200` is a number in two ways."""
    text = trim_text(text)
    if not text:
        return
    if _ADDRESS.fullmatch(text):
        yield Value("address", text.lower().removeprefix("mailto:"))
    elif _URL.fullmatch(text):
        yield Value("url", _format_url(text))
    elif moments := dict.fromkeys(_read_moments(text)):
        yield from (Value("moment", moment) for moment in moments)
    elif numbers := dict.fromkeys(_read_numbers(text)):
        yield from (Value("number", number) for number in numbers)
    elif _HOST.fullmatch(text):
        yield Value("host", text.lower())
        # "wants.txt" is written as a host is.
        yield Value("path", text)
    elif _PATH.fullmatch(text):
        yield Value("path", text.removeprefix("./").rstrip("/") or text)
    else:
        yield Value("words", text.casefold())


def trim_text(text: str) -> str:
    """Return a text as values are compared: NFKC, one space between words, no punctuation or brackets around it."""
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    return text.rstrip(f" {_EDGES}").lstrip(f" {_EDGES.replace('.', '')}")


def format_key(value: Value) -> str:
    """Return a value as one short text: equal for equal values, different for different ones."""
    key = f"{value.kind}:{value.normal}"
    if len(key) <= _LONGEST:
        return key
    return f"{key[: _LONGEST - 65]}~{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"


def has_mixed_scripts(text: str) -> bool:
    """Whether the letters of a text are of more than one script, as in a name made to look like another one.

    The scripts that Japanese or Korean mixes in every sentence count as one.
    """
    letters = (letter for letter in unicodedata.normalize("NFKC", text) if unicodedata.category(letter) in _LETTERS)
    scripts = (re.split("[ -]", unicodedata.name(letter, ""), maxsplit=1)[0] for letter in letters)
    return len({_ONE_SCRIPT.get(script, script) for script in scripts}) > 1


_LETTERS = ("Ll", "Lu", "Lt", "Lo")


def _read_moments(text: str) -> Iterator[str]:
    """Yield a date, a time or both; a date with slashes may begin with its month or its day."""
    if found := _DATE.fullmatch(text):
        year, _, month, day, time = found.groups()
        yield from _format_moment(year, month, day, time)
    elif found := _DATE_BACKWARDS.fullmatch(text):
        first, sign, second, year, time = found.groups()
        # Only with slashes do some write the month first.
        if sign == "/":
            yield from _format_moment(year, first, second, time)
        yield from _format_moment(year, second, first, time)
    else:
        yield from _format_time(text)


def _format_moment(year: str, month: str, day: str, time: str | None) -> Iterator[str]:
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return
    date = f"{year}-{int(month):02}-{int(day):02}"
    if time is None:
        yield date
    else:
        yield from (f"{date} {moment}" for moment in _format_time(time))


def _format_time(text: str) -> Iterator[str]:
    found = _TIME.fullmatch(text)
    if not found or not (found[2] or found[4]):
        return
    hour, minute, second, half = int(found[1]), found[2] or "00", found[3] or "00", found[4]
    # Minutes and seconds have two digits each, so that they compare as texts.
    if hour > (12 if half else 23) or minute > "59" or second > "59" or (half and not hour):
        return
    if half:
        hour = hour % 12 + (12 if half in "pP" else 0)
    yield f"{hour:02}:{minute}:{second}"


def _read_numbers(text: str) -> Iterator[str]:
    """Yield a number with its currency or percent sign left out, where a text is nothing else.

    One that begins with a zero is a name: `007` is not 7.
    """
    bare = "".join(letter for letter in text if unicodedata.category(letter) != "Sc" and letter != "%").strip()
    bare = _CURRENCY.sub("", bare, count=1)
    if re.match(r"[+-]?0\d", bare):
        return
    for point, pattern in _NUMBERS.items():
        if pattern.fullmatch(bare):
            whole, _, fraction = bare.partition(point)
            digits = re.sub(r"[^\d+-]", "", whole)
            yield _format_number(f"{digits}.{fraction}" if fraction else digits)


def _format_number(digits: str) -> str:
    """Return digits without what does not count; text, since a number in a message has no bound."""
    text = digits.removeprefix("+")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text if text not in ("-0", "") else "0"


def _format_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        host = parts.netloc.lower()
    except ValueError:
        return text
    return parts._replace(scheme=parts.scheme.lower(), netloc=host).geturl().rstrip("/")


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

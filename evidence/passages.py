"""What the calls of one request returned as texts, and the passages of them that stand word for word in other texts.

Texts are compared in NFKC, folded, without blanks and without what nobody sees, so that neither broken lines nor a
passage that is cut into several texts hides one. A read is looked into when a text is to leave, and only once: of it is
kept where every eighth run of eight characters stands, for a third of the shortest passage, which is 24 by default.

What a short text can give away or lead to is found as well: codes of letters and digits, accounts, addresses.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import sha256
from foregate.schemas.value import Value, read_forms, trim_text

KEPT = 128
"""Reads of a request that are kept."""
SIZE = 2 * 1024 * 1024
"""Characters of the reads that are kept, their arguments included."""
LONGEST = 256 * 1024
"""Characters at the beginning of a read that are kept."""

_PLACES = 16
"""Places of one run in a read that are looked at one by one."""


@dataclass(eq=False)
class ReadText:
    """What a call returned, as the log holds it: the event, the tool, its target and arguments, and the text."""

    seq: int
    tool: str
    target: str
    arguments: str
    content: str

    @property
    def name(self) -> str:
        """What a person knows the read by: its target, or the tool where it has none."""
        return self.target if self.target not in ("", ".") else self.tool


LOST = ReadText(0, "a read that is no longer kept", "", "", "")
"""Stands for all that was read beyond the bounds of this module."""


@dataclass(eq=False)
class ReadTexts:
    """The texts of one request, within the bounds of this module; the oldest go first.

    `is_cut` says that there was more than is kept.
    """

    _reads: dict[str, ReadText] = field(default_factory=dict)
    _size: int = 0
    is_cut: bool = False

    @property
    def reads(self) -> list[ReadText]:
        """Those that are kept, the oldest first."""
        return [*self._reads.values()]

    def add(self, seq: int, tool: str, target: str, arguments_raw: str, content: str) -> None:
        """Keep what event `seq` says a call returned; the same again only makes the earlier one the newest."""
        self.is_cut = self.is_cut or len(content) > LONGEST
        self.keep_read(ReadText(seq, tool, target, arguments_raw, content[:LONGEST]))

    def keep_read(self, read: ReadText) -> None:
        """Keep a read, as `add` does."""
        same = read.tool, read.target, read.arguments, read.content
        self._size, had_to_go = keep_newest(self._reads, read, same, self._size, most=KEPT, largest=SIZE)
        self.is_cut = self.is_cut or had_to_go


class PlainText:
    """Texts one after the other as passages are compared; `words` are as they were written."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.words: list[str] = []
        self._last: list[int] = []
        folded: list[str] = []
        for text in texts:
            pairs = [(word, bare) for word in text.split() if (bare := fold_text(word))]
            self.words += [word for word, _ in pairs]
            folded += [bare for _, bare in pairs]
            self._last.append(len(self.words))
        self.text = "".join(folded)
        self.starts = array("l", accumulate(map(len, folded), initial=0))

    def measure(self, start: int, end: int) -> int:
        """Return the characters of a stretch, with one blank between two words."""
        return end - start + max(0, bisect_left(self.starts, end) - bisect_right(self.starts, start))

    def find_words(self, start: int, end: int) -> range:
        """Return the numbers of the words a stretch lies in."""
        return range(bisect_right(self.starts, start) - 1, bisect_left(self.starts, end))

    def find_text(self, word: int) -> int:
        """Return the number of the text a word stands in."""
        return bisect_right(self._last, word)


class Passage(NamedTuple):
    """A stretch of texts that stands in a read as well."""

    read: ReadText
    start: int
    end: int


def fold_text(text: str) -> str:
    """Return a text as passages are compared."""
    if text.isascii():
        return "".join(text.split()).lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(letter for letter in "".join(folded.split()) if unicodedata.category(letter) not in ("Cf", "Cc"))


def find_passages(texts: PlainText, reads: Sequence[ReadText], shortest: int) -> Iterator[Passage]:
    """Yield every passage of at least `shortest` characters that texts have in common with reads.

    Of a passage at most a third may be blanks.
    """
    size = max(1, shortest // 3)
    runs = {texts.text[at : at + size] for at in range(len(texts.text) - size + 1)}
    for read in reads:
        index = _open_read(read, size)
        if common := index.first.keys() & runs:
            yield from _find_in_read(texts, read, index, common, shortest)


class _Index:
    """Where the runs of a read stand: every `size` characters one, the newest place first, then those before it."""

    def __init__(self, content: str, size: int) -> None:
        self.size = size
        self.plain = PlainText([content])
        self.first: dict[str, int] = {}
        self._before = array("l")
        text = self.plain.text
        for at in range(0, len(text) - size + 1, size):
            run = text[at : at + size]
            self._before.append(self.first.get(run, -1))
            self.first[run] = at

    def list_places(self, run: str) -> Iterator[int]:
        """Yield the places of a run, at most 16."""
        place, left = self.first.get(run, -1), _PLACES
        while place >= 0 and left:
            yield place
            place, left = self._before[place // self.size], left - 1


_INDEXES: WeakKeyDictionary[ReadText, _Index] = WeakKeyDictionary()
"""What was made of the reads; it is no part of a session's state, which holds what the log holds."""


def _open_read(read: ReadText, size: int) -> _Index:
    known = _INDEXES.get(read)
    if known is None or known.size != size:
        known = _INDEXES[read] = _Index(read.content, size)
    return known


def _find_in_read(
    texts: PlainText, read: ReadText, index: _Index, common: set[str], shortest: int
) -> Iterator[Passage]:
    """Yield the passages of one read that hold one of the common runs, none twice from within another."""
    text, other = texts.text, index.plain
    done: dict[int, int] = {}
    found = 0
    for at in range(len(text) - index.size + 1):
        run = text[at : at + index.size]
        if run not in common or at + index.size <= found:
            continue
        for place in index.list_places(run):
            # An earlier run of the same stretch has found it.
            if at < done.get(place - at, 0):
                continue
            start, end = _extend(text, other.text, at, place, index.size)
            done[place - at] = end
            if other.measure(place - at + start, place - at + end) >= shortest:
                found = max(found, end)
                yield Passage(read, start, end)


def _extend(text: str, other: str, at: int, place: int, size: int) -> tuple[int, int]:
    """Return start and end in `text` of the longest stretch around a common run."""
    start, end, shift = at, at + size, place - at
    while start > 0 and start + shift > 0 and text[start - 1] == other[start + shift - 1]:
        start -= 1
    while end < len(text) and end + shift < len(other) and text[end] == other[end + shift]:
        end += 1
    return start, end


class KeptRead(Protocol):
    """What has arguments and a content, whose characters together are its size."""

    arguments: str
    content: str


R = TypeVar("R", bound=KeptRead)


def keep_newest(
    reads: dict[str, R], read: R, same: tuple[str, ...], size: int, *, most: int, largest: int
) -> tuple[int, bool]:
    """Keep a read as the newest, or an earlier one with the same `same`; the oldest stands first.

    `size` are the characters of all that are kept, at most `largest`; there are at most `most` of them. Return the
    characters of all that are kept now, and whether older ones had to go.
    """
    name = sha256(repr(same).encode())
    if (known := reads.pop(name, None)) is not None:
        reads[name] = known
        return size, False
    reads[name] = read
    size += len(read.arguments) + len(read.content)
    had_to_go = False
    while size > largest or len(reads) > most:
        oldest = reads.pop(next(iter(reads)))
        size -= len(oldest.arguments) + len(oldest.content)
        had_to_go = True
    return size, had_to_go


# "ann@example.org" in "Ann <ann@example.org>", "https://example.org/a".
ADDRESS_WITHIN = compile_late(
    r"[a-z][a-z0-9+.-]*://[^\s\"'<>]+|[^\s@/<>()\[\],;:\"']+@[^\s@/<>()\[\],;:\"']+\.[^\s@/<>()\[\],;:\"']+",
    re.IGNORECASE,
)
# "pay.example" and "192.0.2.7:80/now" in "go to pay.example, or 192.0.2.7:80/now".
_HOST = compile_late(
    r"(?<![\w@./-])(?:(?:[\w-]+\.)+([^\W\d_]{2,}|xn--[\w-]+)|\d{1,3}(?:\.\d{1,3}){3})(?::\d+)?(?:/[^\s\"'<>]*)?(?![\w@-])"
)
# "DE89 3704 0044 0532 0130 00", "+49 30 123456".
_ACCOUNT = compile_late(
    r"\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?\b|\+\d(?:[ ()/.-]{0,2}\d){6,}", re.IGNORECASE
)
# "HX-4471" in '{"code":"HX-4471"}'.
_TOKEN = compile_late(r"\+?[^\W_](?:[-./_+:]?[^\W_])*")
# "493 201", "4111 1111 1111 1111".
_GROUPS = compile_late(r"(?<![\w.,:-])\+?\d{2,}(?: \d{2,})+(?![\w.,:-]\d)")
# "100km".
_MEASURE = compile_late(r"\d+[^\W\d_]+")
# "\\n", "\\u00e9": what JSON writes of a line's end and of a letter.
_ESCAPE = compile_late(r"\\(?:u[0-9a-fA-F]{4}|.)")
# "2026".
_YEAR = compile_late(r"(?:19|20)\d\d")
_ACCOUNT_DIGITS = 7
# "9f86d081".
_HEX = compile_late(r"[0-9a-f]+|[0-9A-F]+")
# "-" in "9f86d081-884c".
_BETWEEN = compile_late(r"[-_/+=]")
_MIXED = 3
"""Digits from which a word with letters in it is a code: `HX-447`, not `covid-19`."""


def bare_text(text: str) -> str:
    """Return the letters and digits of a text alone, folded, so that nothing between them tells two texts apart."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def find_addresses(text: str, endings: Collection[str]) -> Iterator[Value]:
    """Yield the addresses in a text: URLs, mail addresses, hosts, accounts and telephone numbers.

    What has one of the `endings` of files is no host.

    >>> [value.normal for value in find_addresses("See pay.example/now, not notes.txt, or +49 30 1234567.", ["txt"])]
    ['pay.example/now', '49301234567']
    """
    text = clear_text(text)
    for word in ADDRESS_WITHIN.findall(text):
        yield from (form for form in list(read_forms(word))[:1] if form.kind in ("url", "address"))
    rest = ADDRESS_WITHIN.sub(" ", text)
    for found in _HOST.finditer(rest):
        # "home.Then" has lost a blank.
        if found[1] is None or (found[1].islower() and found[1] not in endings):
            yield Value("host", trim_text(found[0]).rstrip("/"))
    for found in _ACCOUNT.finditer(rest):
        if sum(map(str.isdigit, found[0])) >= _ACCOUNT_DIGITS:
            yield Value("words", bare_text(found[0]))


def name_place(address: Value) -> str:
    """Return an address as people write it: without scheme, `www.` and a last `/`."""
    return address.normal.rpartition("://")[2].removeprefix("www.").rstrip("/")


def list_places(text: str, endings: Collection[str]) -> set[str]:
    """Return the places of all addresses in a text, and the hosts of these."""
    places = {name_place(one) for one in find_addresses(text, endings)}
    return places | {place.partition("/")[0].rpartition("@")[2] for place in places}


def find_codes(text: str, shortest: int) -> dict[str, str]:
    """Return the codes and numbers in a text, as written, by their letters and digits alone; none where that is 0.

    Dates, amounts with a fraction or thousands apart, measures and years are none.

    >>> find_codes('{"pin":"493 201","id":"HX-4471","on":"2026-03-01","sum":1200.50,"way":"100km"}', 6)
    {'hx4471': 'HX-4471', '493201': '493 201'}
    """
    if not shortest:
        return {}
    text = ADDRESS_WITHIN.sub(" ", _ESCAPE.sub(" ", clear_text(text)))
    words = (part for word in _TOKEN.findall(text) if not _is_plain(word) for part in word.split(":"))
    groups = (found for found in _GROUPS.findall(text) if not all(map(_YEAR.fullmatch, found.split())))
    codes = (*(word for word in words if _is_code(word)), *groups)
    return {bare: code for code in codes if len(bare := bare_text(code)) >= shortest}


def find_taken_codes(read: ReadText, texts: Sequence[str], shortest: int) -> Iterator[tuple[int, str]]:
    """Yield the codes of a read that texts hold, however written, each with the number of the text."""
    codes = list_codes(read, shortest)
    for number, text in enumerate(texts) if codes else ():
        bare = bare_text(text)
        yield from ((number, code) for plain, code in codes.items() if plain in bare and _stands_in(plain, text))


def list_codes(read: ReadText, shortest: int) -> dict[str, str]:
    """Return the codes of a read, as `find_codes` does; it is looked into only once."""
    known = _CODES.get(read)
    if known is None or known[0] != shortest:
        known = _CODES[read] = shortest, find_codes(read.content, shortest)
    return known[1]


_CODES: WeakKeyDictionary[ReadText, tuple[int, dict[str, str]]] = WeakKeyDictionary()
"""What was made of the reads; it is no part of a session's state, which holds what the log holds."""


def _stands_in(plain: str, text: str) -> bool:
    """Whether a text that holds the letters and digits of a code has no further digit beside them."""
    between = r"\W{0,3}".join(map(re.escape, plain))
    return re.search(rf"(?<!\d){between}(?!\d)", clear_text(text).casefold()) is not None


def clear_text(text: str) -> str:
    """Return a text as it looks: in NFKC, without what nobody sees."""
    plain = unicodedata.normalize("NFKC", text)
    if plain.isascii():
        return plain
    return "".join(letter for letter in plain if unicodedata.category(letter) != "Cf")


def _is_code(word: str) -> bool:
    if _is_plain(word) or _MEASURE.fullmatch(word):
        return False
    digits = sum(map(str.isdigit, word))
    return digits >= _MIXED if any(map(str.isalpha, word)) else digits > 0


def _is_plain(word: str) -> bool:
    """Whether a word is a date or a time, several of them, or an amount."""
    parts = re.split(r"[/_+]", word)
    if all(any(form.kind == "moment" for form in read_forms(part)) or _YEAR.fullmatch(part) for part in parts):
        return True
    if all(map(_YEAR.fullmatch, re.split("[-/]", word))):
        return True
    return not word.isalnum() and any(form.kind == "number" for form in read_forms(word))


def find_encoded(text: str, shortest: int) -> Iterator[str]:
    """Yield runs of text in base64, in hexadecimal or with percent signs; nothing where `shortest` is 0.

    >>> list(find_encoded("see dGhlIGtleSBpcyBpbiB0aGUgYm94IGhlcmU=", 32))
    ['dGhlIGtleSBpcyBpbiB0aGUgYm94IGhlcmU=']
    >>> list(find_encoded("https://docs.example/guides/how-to-install/on-linux-2", 32))
    []
    """
    if not shortest:
        return
    for found in re.finditer(
        rf"(?:%[0-9A-Fa-f]{{2}}){{{-(-shortest // 3)},}}|[\w/+-]{{{shortest},}}={{0,2}}", text, re.A
    ):
        run = found.group()
        longest = max(_BETWEEN.split(run), key=len)
        mixed = any(map(str.isdigit, longest)) and any(map(str.isalpha, longest))
        is_hex = _HEX.fullmatch(run) is not None and not run.isalpha()
        if run.startswith("%") or is_hex or (mixed and 2 * len(longest) >= shortest):
            yield run

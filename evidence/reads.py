"""What the reads of one request returned, and the values that stand in their records as the only candidate."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import NamedTuple
from weakref import WeakKeyDictionary

from foregate.evidence.ledger import Written, find_strings
from foregate.evidence.newest_reads import keep_newest
from foregate.evidence.records import LONGEST, PROSE, Record, list_record_words, read_records
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event_body import ToolFinished, ToolStarted
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.lookalike import is_lookalike
from foregate.schemas.tool_call import EvidenceKind, Trust
from foregate.schemas.tool_spec import Resource, ResourceKind
from foregate.schemas.turn import Said
from foregate.schemas.value import Value, read_value

KEPT = 64
"""Reads of a request that are kept."""
SIZE = 4 * 1024 * 1024
"""Characters of the reads that are kept, their arguments included."""

_SHORT = 5
"""Characters below which a text in the arguments of a read counts as a whole word only."""
_SHOWN = 60
"""Characters of a name that are shown."""
# "1,234.50" in "EUR 1,234.50".
_NUMBER = compile_late(r"[+-]?\d[\d.,]*")
# "https://example.org/a" in "(https://example.org/a)".
_LINK = compile_late(r"https?://[^\s\"'<>()\[\]{}`\\|]+", re.IGNORECASE)


class FoundValue(NamedTuple):
    """Where a value was found: the event and the tool of the read, the name of the field, the place of its record.

    The name is "" for a result that is one value, and for a link.
    """

    seq: int
    tool: str
    field: str
    record: str
    words: frozenset[str] = frozenset()
    """Words that stand in the record beside the value."""


@dataclass(eq=False)
class Reads:
    """The results of the reads of one request, as texts; looked into when a value is asked for, and only once."""

    _reads: dict[str, _ReadResult] = field(default_factory=dict)
    _size: int = 0

    def add(self, seq: int, tool: str, arguments_raw: str, content: str) -> None:
        """Keep what event `seq` says a read returned; the same read again only makes the earlier one the newest.

        Beyond the bounds the oldest go first; a text too long to have records is not kept.
        """
        if len(content) <= LONGEST:
            self._keep(_ReadResult(seq, tool, arguments_raw, content))

    def join(self, newer: Reads) -> Reads:
        """Return the reads of both, within the bounds of one."""
        both = Reads()
        for read in (*self._reads.values(), *newer._reads.values()):
            both._keep(read)
        return both

    def _keep(self, read: _ReadResult) -> None:
        same = read.tool, read.arguments, read.content
        self._size, _ = keep_newest(self._reads, read, same, self._size, most=KEPT, largest=SIZE)

    def find(
        self,
        value: Value,
        text: str,
        words: Callable[[Record], bool] | None = None,
        gives: Callable[[Record, str], bool] = lambda record, name: True,
        *,
        need_words: bool = False,
        echoes: bool = False,
    ) -> FoundValue | None:
        """Return the first read that has `value`, written as `text` in a call, as the only candidate of its field.

        The only candidate is the one value all fields of that name hold; else the one they hold in those records for
        which `words` holds. With `need_words` it is the latter in either case. Each such record must give it by the
        field of that name. A read that was asked with the value is no evidence of it, unless `echoes` are.
        """
        for read in self._reads.values():
            for name in _open_read(read).names_by_value.get(value, ()):
                if not echoes and _is_echo(read.arguments, value, text):
                    break
                record = _open_read(read).find_record(name, value, words, gives, need_words)
                if record is not None:
                    beside = list_record_words(leave_out(record, value))
                    return FoundValue(read.seq, read.tool, _show(name), _format_place(record), beside)
        return None

    def list_records(self) -> Iterator[Record]:
        """Yield the records of all reads."""
        for read in self._reads.values():
            yield from _open_read(read).records

    def has_lookalike(self, value: Value) -> bool:
        """Whether a field of a read holds a value that looks like this one and is another."""
        return any(
            is_lookalike(value, known) for read in self._reads.values() for known in _open_read(read).names_by_value
        )

    def find_link(self, url: Value, is_said: Callable[[Value], bool]) -> FoundValue | None:
        """Return the first read of a page the person named that links a URL of the same host in so many characters."""
        for read in self._reads.values():
            for page in map(read_value, _list_texts(read.arguments)):
                if page is None or page.kind != "url" or page == url or not _is_same_site(page.normal, url.normal):
                    continue
                if is_said(page) and url in map(read_value, _LINK.findall(read.content)):
                    return FoundValue(read.seq, read.tool, "", "")
        return None


def leave_out(record: Record, value: Value) -> Record:
    """Return a record without the fields that hold a value."""
    return replace(record, fields=tuple(one for one in record.fields if one.value != value))


def may_have_written(written: Written, value: Value, text: str, before: int) -> bool:
    """Whether a call before an event wrote a value, or more was written than can be looked through."""
    earlier = (texts for seq, texts in written.texts if seq < before)
    return written.is_cut or any(_is_echo(texts, value, text) for texts in earlier)


@dataclass(eq=False)
class _ReadResult:
    """One read as the log holds it: nothing that was made of it stands here."""

    seq: int
    tool: str
    arguments: str
    content: str


@dataclass(slots=True)
class _ValueIndex:
    """The records of a read, the names of the fields that hold a value, and by name the values of each record."""

    records: tuple[Record, ...]
    names_by_value: dict[Value, dict[str, None]] = field(default_factory=dict)
    values_by_name: dict[str, dict[int, set[Value]]] = field(default_factory=dict)
    distinct: dict[str, set[Value]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, record in enumerate(self.records):
            for one in record.fields:
                if one.value is not None:
                    self.names_by_value.setdefault(one.value, {})[one.name] = None
                    self.values_by_name.setdefault(one.name, {}).setdefault(number, set()).add(one.value)
                    self.distinct.setdefault(one.name, set()).add(one.value)

    def find_record(
        self,
        name: str,
        value: Value,
        words: Callable[[Record], bool] | None,
        gives: Callable[[Record, str], bool],
        need_words: bool,
    ) -> Record | None:
        """Return a record in which `value` is the only candidate for the field `name`, None where it is not."""
        held = self.values_by_name[name]
        if len(self.distinct[name]) > 1 or need_words:
            held = {number: values for number, values in held.items() if words and words(self.records[number])}
        if not held or any(values != {value} for values in held.values()):
            return None
        records = [self.records[number] for number in held]
        return records[0] if all(gives(record, name) for record in records) else None


_INDEXES: WeakKeyDictionary[_ReadResult, _ValueIndex] = WeakKeyDictionary()
"""What was made of the reads; it is no part of a session's state, which holds what the log holds."""


def _open_read(read: _ReadResult) -> _ValueIndex:
    if (known := _INDEXES.get(read)) is None:
        known = _INDEXES[read] = _ValueIndex(read_records(read.content))
    return known


def _is_echo(arguments: str, value: Value, text: str) -> bool:
    """Whether the arguments of a read hold a value already, as a whole or inside a longer text."""
    said = list(_list_texts(arguments))
    if any(read_value(one) == value for one in said if len(one) <= PROSE):
        return True
    if value.kind == "number":
        return any(read_value(number) == value for one in said for number in _NUMBER.findall(one))
    needles = {_fold(value.normal), _fold(text)} - {""}
    return any(_holds(_fold(one), needle) for one in said for needle in needles)


def _is_same_site(one: str, other: str) -> bool:
    """Whether two URLs have scheme, host and port in common and say no user."""
    first, second = one.split("/")[:3], other.split("/")[:3]
    return first == second and len(first) > 2 and not {"@", "?", "#"} & set(first[2])


def _list_texts(arguments: str) -> Iterator[str]:
    """Yield the arguments as sent, and each text in them without the escapes of JSON."""
    yield arguments
    with suppress(InvalidJson):
        yield from find_strings(strict_json.parse(arguments))


def _holds(text: str, needle: str) -> bool:
    if len(needle) >= _SHORT:
        return needle in text
    return re.search(rf"(?<!\w){re.escape(needle)}(?!\w)", text) is not None


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _format_place(record: Record) -> str:
    """Return where a record stands, as people write it; "" for the whole of a result."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{_show(step)}" for step in record.path[:8])
    return steps.removeprefix(".")


def _show(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name[:_SHOWN])


_KEPT_MESSAGES = 16
"""Messages of the person that are kept beyond their task."""


@dataclass(slots=True)
class Earlier:
    """What came before a task in its session: what the person said, what reads returned, and the model's last words.

    `answer` is what the model said at the end of the task before, None where that ended in another way.
    """

    messages: tuple[Said, ...] = ()
    reads: Reads = field(default_factory=Reads)
    answer: Said | None = None

    def follow(self, messages: list[Said], reads: Reads, answer: Said | None) -> Earlier:
        """Return what came before the next task: this, and a task with these messages, reads and last words."""
        own = [said for said in messages if said.actor == "user"]
        return Earlier((*self.messages, *own)[-_KEPT_MESSAGES:], self.reads.join(reads), answer)


_RETOLD = ("delegate", "recall", "remember")
"""Built-in tools whose results are words of the session's own models, of this session or an earlier one."""


def is_evident_read(started: ToolStarted | None, body: ToolFinished, carriers: AbstractSet[Resource]) -> bool:
    """Whether a call only looked, and returned whole what it looked at.

    A part of a file, a cut result, and what a program made of its input do not count: who chose the part or wrote the
    command has shaped them. Nor does what lies in `carriers`, the things the session changed itself.
    """
    if started is None or started.side_effect != "pure" or not body.ok or body.dropped or body.tool in _RETOLD:
        return False
    if any(one.trust is not Trust.DIRECT or _is_carried(one.resource, carriers) for one in body.evidence):
        return False
    return not started.confinement or {one.kind for one in body.evidence} == {EvidenceKind.FILE_READ}


def _is_carried(resource: Resource, carriers: AbstractSet[Resource]) -> bool:
    """Whether the session changed a thing, or put the folder there that it lies in."""
    if not carriers or resource in carriers:
        return bool(carriers)
    above = PurePosixPath(resource.id).parents if resource.kind is ResourceKind.FILE else ()
    return any(Resource(ResourceKind.DIRECTORY, str(folder)) in carriers for folder in above)

"""What the reads of one request returned, and the values that stand in their records as the only candidate."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple
from weakref import WeakKeyDictionary

from foregate.evidence.ledger import Written, find_strings
from foregate.evidence.passages import bare_text, keep_newest, name_place
from foregate.evidence.records import (
    LONGEST,
    PROSE,
    Record,
    is_prose,
    list_keys,
    read_lines,
    read_records,
)
from foregate.evidence.value_index import SaidText, ToolListing, ValueIndex, name_record
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event_body import ToolFinished, ToolStarted
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_call import EvidenceKind, Origin, Trust
from foregate.schemas.tool_spec import OwnFields, Resource, ResourceKind
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

    The name is "" for a result that is one value, for a key, and for a link. `words` are those of the person's by which
    the record is the one that is meant, `is_meant` whether it is. `is_own` tells that nobody outside could write there.
    `is_open` tells that no record holds any of their words. `called` is what no other record is called, "" where
    nothing tells it from others.
    """

    seq: int
    tool: str
    field: str
    record: str
    words: frozenset[str] = frozenset()
    is_own: bool = False
    is_meant: bool = False
    is_open: bool = False
    called: str = ""


class WantedField(NamedTuple):
    """What a value is looked for with: the person's words, and the values that they say as a whole, and whether a field
    of a record gives it, by its record, its name, and whether nobody outside can write it. `beside` are the other
    values of the call: a record with more of them comes first.

    A read that was asked with the value is no evidence of it, unless `echoes` are, nor one of an event before which
    `is_written` says that the session wrote it. `only_looks` takes what looks returned, and nothing that a change did.
    `owns` says which fields of a tool's results a person has declared since they were read. `together` are the values
    that go into one list with it, `codes` those of the person's words that are codes and that the call has beside it.
    """

    told: AbstractSet[str]
    wholes: AbstractSet[Value] = frozenset()
    beside: AbstractSet[Value] = frozenset()
    gives: Callable[[Record, str, bool], bool] = lambda record, name, is_own: True
    echoes: bool = False
    is_written: Callable[[int], bool] = lambda seq: False
    only_looks: bool = False
    owns: Callable[[str], OwnFields] = lambda tool: ()
    together: AbstractSet[Value] = frozenset()
    codes: AbstractSet[str] = frozenset()

    @property
    def said(self) -> SaidText:
        return self.told, self.wholes, self.codes


class OpenedRead(NamedTuple):
    """The records of what the call at event `seq` returned, and which of their fields nobody outside can write."""

    seq: int
    tool: str
    own: OwnFields
    records: tuple[Record, ...]


@dataclass(eq=False)
class Reads:
    """The results of the reads of one request, as texts; looked into when a value is asked for, and only once."""

    _reads: dict[str, _ReadResult] = field(default_factory=dict)
    _size: int = 0

    def add(
        self, seq: int, tool: str, arguments_raw: str, content: str, own: OwnFields = (), *, is_change: bool = False
    ) -> None:
        """Keep what event `seq` says a call returned; the same again only makes the earlier one the newest.

        `own` are the fields that nobody outside can write, `is_change` tells a change from a look. Beyond the bounds
        the oldest go first; a text too long to have records is not kept.
        """
        if len(content) <= LONGEST:
            self._keep(_ReadResult(seq, tool, arguments_raw, content, own, is_change))

    def take(
        self,
        seq: int,
        started: ToolStarted | None,
        body: ToolFinished,
        arguments_raw: str,
        carriers: AbstractSet[Resource],
    ) -> None:
        """Keep the result of a call where its records may give a value; `carriers` are what the session changed."""
        if started is not None and is_record(started, body, carriers):
            own: OwnFields = "all" if body.origin is Origin.WORKSPACE else started.own
            is_change = started.side_effect != "pure"
            self.add(seq, body.tool, arguments_raw, body.content, own, is_change=is_change)

    def join(self, newer: Reads) -> Reads:
        """Return the reads of both, within the bounds of one."""
        both = Reads()
        for read in (*self._reads.values(), *newer._reads.values()):
            both._keep(read)
        return both

    def _keep(self, read: _ReadResult) -> None:
        same = read.tool, read.arguments, read.content
        self._size, _ = keep_newest(self._reads, read, same, self._size, most=KEPT, largest=SIZE)

    def find(self, value: Value, text: str, wanted: WantedField) -> FoundValue | None:
        """Return where a value, written as `text` in a call, stands as a whole field: the best place.

        Fields of the tool's own system come first, then records that the person's words tell from all others that reads
        of the same tool returned.
        """
        best: tuple[tuple[bool, bool, int], bool, Record, FoundValue] | None = None
        listings = dict[tuple[str, str, bool, bool], ToolListing]()
        for read in self._reads.values():
            index, whole = _find_index(read, value)
            places = index.find_places(value)
            if not places or (not wanted.echoes and _is_echo(read.arguments, value, text)):
                continue
            if wanted.is_written(read.seq) or (wanted.only_looks and read.is_change):
                continue
            for number, name in places:
                record = index.records[number]
                is_own = read.own == "all" or name in read.own or name in wanted.owns(read.tool)
                if not wanted.gives(record, name, is_own):
                    continue
                key = read.tool, name, whole, is_own
                if (listing := listings.get(key)) is None:
                    indexes = self._list_indexes(read.tool, whole=whole)
                    # Where others can write, one record more among those that are meant may be theirs.
                    giving = {value, *wanted.together} if is_own else {value}
                    listing = listings[key] = ToolListing.build(indexes, name, giving, wanted.said)
                words, is_meant, is_open = listing.tell_apart(index, number, value, read.arguments)
                rank = is_own, is_meant, len({one.value for one in record.fields} & wanted.beside)
                if best is None or rank > best[0]:
                    where = read.seq, read.tool, _show(name), _format_place(record)
                    best = rank, whole, record, FoundValue(*where, words, is_own, is_meant, is_open)
        if best is None:
            return None
        _, whole, record, found = best
        return found._replace(called=name_record(record, self._list_indexes(found.tool, whole=whole)))

    def _list_indexes(self, tool: str, *, whole: bool) -> list[ValueIndex]:
        """Return the records that reads of a tool returned; `whole` those of their keys and lines."""
        reads = (read for read in self._reads.values() if read.tool == tool)
        return [_open_whole(read) if whole else _open_read(read) for read in reads]

    def list_records(self) -> Iterator[Record]:
        """Yield the records of all reads."""
        return (record for one in self.list_reads() for record in one.records)

    def list_reads(self) -> Iterator[OpenedRead]:
        """Yield each read with its records, the newest first."""
        for read in reversed(self._reads.values()):
            yield OpenedRead(read.seq, read.tool, read.own, _open_read(read).records)

    def has_value(self, value: Value) -> bool:
        """Whether a field of a read holds a value."""
        return any(value in _open_read(read).places for read in self._reads.values())

    def list_own_names(self, value: Value) -> set[str]:
        """Return the names of the fields of the tools' own systems that hold a value."""
        return {
            name
            for read in self._reads.values()
            for _, name in _open_read(read).find_places(value)
            if read.own == "all" or name in read.own
        }

    def has_own_place(self, place: str) -> bool:
        """Whether an address, as `name_place` writes it, or its host stands as a whole field that nobody outside can
        write."""
        for read in self.list_reads():
            for one in (one for record in read.records for one in record.fields):
                if one.value is not None and (read.own == "all" or one.name in read.own):
                    own = name_place(one.value)
                    if place in (own, own.partition("/")[0], bare_text(one.text)):
                        return True
        return False

    def has_lookalike(self, value: Value) -> bool:
        """Whether a field of a read holds a value that looks like this one and is another."""
        return any(_open_read(read).has_lookalike(value) for read in self._reads.values())

    def find_link(self, url: Value, is_said: Callable[[Value], bool]) -> FoundValue | None:
        """Return the first read of a page the person named that links a URL of the same host in so many characters."""
        for read in self._reads.values():
            for page in map(read_value, _list_texts(read.arguments)):
                if page is None or page.kind != "url" or page == url or not _is_same_site(page.normal, url.normal):
                    continue
                if is_said(page) and url in map(read_value, _LINK.findall(read.content)):
                    return FoundValue(read.seq, read.tool, "", "")
        return None


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
    own: OwnFields = ()
    is_change: bool = False


_INDEXES: WeakKeyDictionary[_ReadResult, ValueIndex] = WeakKeyDictionary()
"""What was made of the reads; it is no part of a session's state, which holds what the log holds."""
_WHOLES: WeakKeyDictionary[_ReadResult, ValueIndex] = WeakKeyDictionary()
"""The keys of reads, or the lines of those that have no records."""


def _open_read(read: _ReadResult) -> ValueIndex:
    if (known := _INDEXES.get(read)) is None:
        known = _INDEXES[read] = ValueIndex(read_records(read.content))
    return known


def _open_whole(read: _ReadResult) -> ValueIndex:
    if (known := _WHOLES.get(read)) is None:
        records = _open_read(read).records
        known = _WHOLES[read] = ValueIndex(tuple(list_keys(records) if records else read_lines(read.content)))
    return known


def _find_index(read: _ReadResult, value: Value) -> tuple[ValueIndex, bool]:
    """Return the records in which a value is looked for, and whether these are keys or lines: they count only where all
    of a result is its tool's own, and no field holds the value."""
    index = _open_read(read)
    return (_open_whole(read), True) if read.own == "all" and value not in index.places else (index, False)


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


def is_record(started: ToolStarted, body: ToolFinished, carriers: AbstractSet[Resource]) -> bool:
    """Whether the records of a result may give a value: of a look, or of a change that a tool of somebody else made."""
    if started.side_effect == "pure":
        return is_evident_read(started, body, carriers)
    return body.ok and body.origin is Origin.EXTERNAL and not started.confinement


def find_origin(started: ToolStarted | None, body: ToolFinished) -> Origin:
    """Return whose words a result is: the workspace's where it is whole records of its tool's own system, and no prose
    among them, so that nobody outside can have written anything of it."""
    if started is None or started.own != "all" or not body.ok or body.dropped:
        return body.origin
    fields = [field for record in read_records(body.content) for field in record.fields]
    is_own = bool(fields) and not any(is_prose(field.text) or is_prose(field.name) for field in fields)
    return Origin.WORKSPACE if is_own else body.origin


def _is_carried(resource: Resource, carriers: AbstractSet[Resource]) -> bool:
    """Whether the session changed a thing, or put the folder there that it lies in."""
    if not carriers or resource in carriers:
        return bool(carriers)
    above = PurePosixPath(resource.id).parents if resource.kind is ResourceKind.FILE else ()
    return any(Resource(ResourceKind.DIRECTORY, str(folder)) in carriers for folder in above)

"""The records of what a tool returned: fields with one value each. Prose has none.

A result is whatever somebody else wrote, so reading it never fails: what could surprise has no records.
"""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from foregate.evidence.table import read_table
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json
from foregate.schemas.value import Value, read_value

LONGEST = 256 * 1024
"""Characters of a result that is read."""
MAX_DEPTH = 32
MAX_LEAVES = 20_000
"""Values of a result that is read, empty lists and mappings among them."""
PROSE = 200
"""Characters of a text that can still be a value."""
PROSE_WORDS = 12
"""Words of a text that can still be a value."""
HANDED_DOWN = 256
"""Words a record hands down to those within it."""

# "\n", "\u2028": all that some reader shows as a new line.
_BREAK = compile_late(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# "read" and "file" in "read_file".
_WORD = compile_late(r"[^\W_]+")
# "HTTP 200 OK\ncontent-type: text/plain\n\n".
_HTTP = compile_late(r"HTTP 20[0-5][^\n]*\n(?:[^\n]++\n)*+\n")
"""What `http_request` puts before the body of a whole answer."""
# "<<{}>>".
_MARKED = compile_late(r"\s*<<(.*)>>\s*", re.DOTALL)
"""A whole result between marks, as some put them around all that comes from outside."""
# "- one", "name: one".
_BLOCK = compile_late(r"(?:---[ \t]*\n)?(?:-[ \n]|[^\n]*:(?:[ \n]|$))")
"""How a list or a mapping in block style begins."""
_CONSTANTS_OF_YAML: dict[str, Json] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
"""What plain scalars say that are no text; `yes`, numbers and dates stay as they are written."""
_NO_KEY = compile_late(r"[\s:]|<<")
"""What a plain key of a printed object does not hold: `Please pay to: X` and `notes.txt:3: X` are prose."""
_ESCAPE = r"\\(?:[\\'\"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5})"
# "'name'", "True", "{".
_TOKEN = compile_late(
    rf"""\s*+(?:(?P<text>'(?:[^'\\\n]|{_ESCAPE})*+'|"(?:[^"\\\n]|{_ESCAPE})*+")"""
    r"|(?P<constant>True|False|None)\b|(?P<other>-?[0-9][0-9.e+-]*+|[\[\]{}:,]))"
)
"""A token of a dict or a list as Python prints it."""
# "Price: 40.0".
_PAIR = compile_late(r"([^:,]{1,40}): (.+)")
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}

Path = tuple[str | int, ...]
"""The way to a record: keys of mappings and places in lists."""


class Field(NamedTuple):
    """A field of a record, with its text as written; `value` is None where that is prose or says nothing."""

    name: str
    text: str
    value: Value | None


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of one mapping or list, `path` being where it stands, and the words of the records around it."""

    path: Path
    fields: tuple[Field, ...]
    above: frozenset[str] = field(default=frozenset(), repr=False)


def read_records(content: str) -> tuple[Record, ...]:
    """Return the records of JSON, JSON lines, a dict or list as Python prints it, YAML in block style, or a table.

    An outer record comes before those within it; each row of a table is one, as `read_table` reads it. Returns none for
    anything else, and for what is too large or deep.
    """
    if len(content) > LONGEST:
        return ()
    text = content.removeprefix("\ufeff")
    if (marked := _MARKED.fullmatch(text)) is not None:
        text = marked[1]
    if (head := _HTTP.match(text)) is not None:
        text = text[head.end() :]
    try:
        walker = _Walker()
        walker.take_document(_parse(text))
    except Exception:
        # The parser of YAML answers some malformed texts with whatever it stumbles over.
        return ()
    return tuple(walker.records)


def list_keys(records: Iterable[Record]) -> Iterator[Record]:
    """Yield each field of records as a record of its own, its name being a value: `{"Le Baratin": 40}`."""
    for record in records:
        for one in record.fields:
            yield Record((*record.path, one.name), (Field("", one.name, read_value(one.name)), one), record.above)


def read_lines(content: str) -> Iterator[Record]:
    """Yield each line of a text as a record, with the fields it names: `Hotels: Le Baratin`, `Airline: X, Price: 9`."""
    for number, line in enumerate(content.splitlines()):
        pairs = [pair for pair in map(_PAIR.fullmatch, line.split(", ")) if pair]
        named = [(pair[1].strip(), pair[2].strip()) for pair in pairs] or [("", line.strip())]
        fields = [Field(name, text, None if is_prose(text) else read_value(text)) for name, text in named]
        yield Record((number,), tuple(fields))


def list_record_words(record: Record) -> frozenset[str]:
    """Return the folded words of a record's fields and of those around it: three characters and more, or a number.

    Words of prose are left out, as are the names of fields. Of the records around it the first words count.
    """
    return record.above.union(_list_words(record.fields))


def is_prose(text: str) -> bool:
    """Whether a text is too long to be one value, or has more than one line."""
    return len(text) > PROSE or len(text.split()) > PROSE_WORDS or _BREAK.search(text) is not None


def _list_words(fields: Iterable[Field]) -> Iterator[str]:
    for one in fields:
        if one.value is not None:
            for word in _WORD.findall(unicodedata.normalize("NFKC", one.text).casefold()):
                if len(word) > 2 or word.isdecimal():
                    yield word


class _Walker:
    """Takes a parsed document apart into records."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._leaves = 0

    def take_document(self, document: Json) -> None:
        """Take in a whole document; a lone scalar is a record unless it is a sentence."""
        if isinstance(document, dict | list):
            self._take_record(document, "", (), frozenset())
        elif not (" " in str(document) and str(document).endswith((".", "!", "?"))):
            self.records.append(Record((), (self._build_field("", document),)))

    def _take_record(self, holder: Json, name: str, path: Path, above: frozenset[str]) -> None:
        """Take in a mapping, or a list called `name` that is no field of one, and then what is within it."""
        fields: list[Field] = []
        inner: list[tuple[Json, str, Path]] = []
        for key, value, at in _list_items(holder, name, path):
            if isinstance(value, dict | list) and value:
                inner.append((value, key, at))
            else:
                fields.append(self._build_field(key, value))
        if fields:
            self.records.append(Record(path, tuple(fields), above))
        if inner and fields:
            words = (*dict.fromkeys(_list_words(fields)), *sorted(above))
            above = frozenset(words[:HANDED_DOWN])
        for value, key, at in inner:
            self._take_record(value, key, at, above)

    def _build_field(self, name: str, given: Json) -> Field:
        self._leaves += 1
        if self._leaves > MAX_LEAVES:
            raise InvalidJson(f"more than {MAX_LEAVES} values")
        text = given if isinstance(given, str) else json.dumps(given)
        if not f"{name}{text}".isascii():
            # Fails for half a character.
            f"{name}{text}".encode()
        return Field(name, text, None if is_prose(text) else read_value(given))


def _list_items(holder: Json, name: str, path: Path) -> Iterator[tuple[str, Json, Path]]:
    """Yield the name, the value and the place of what a mapping or a list holds; lists in a mapping item by item."""
    if isinstance(holder, list):
        yield from ((name, item, (*path, place)) for place, item in enumerate(holder))
        return
    for key, value in holder.items() if isinstance(holder, dict) else ():
        if isinstance(value, list) and value:
            yield from _list_items(value, key, (*path, key))
        else:
            yield key, value, (*path, key)


def _parse(text: str) -> Json:
    """Return the document a text is; raise an exception for a text that is none."""
    bare = text.strip()
    if bare.startswith(("{", "[")):
        for parse in (_parse_json, _parse_lines, _parse_printed):
            with suppress(InvalidJson):
                return parse(bare)
    elif _BLOCK.match(bare) is not None and not bare.startswith(("|", "#")):
        return _parse_yaml(text)
    with suppress(InvalidJson):
        return _parse_json(bare)
    return list(read_table(text))


def _parse_json(text: str) -> Json:
    return strict_json.parse(text, max_depth=MAX_DEPTH)


def _parse_lines(text: str) -> Json:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not all(line.startswith(("{", "[")) for line in lines):
        raise InvalidJson("a line that is neither an object nor a list")
    return [_parse_json(line) for line in lines]


def _parse_printed(text: str) -> Json:
    """Return what Python printed as a dict or a list of texts, numbers, truth values and None."""
    pieces, at = [], 0
    while at < len(text):
        if (token := _TOKEN.match(text, at)) is None:
            raise InvalidJson("something Python does not print of plain values")
        at, found = token.end(), token.group(token.lastgroup or 0)
        if token.lastgroup == "text":
            # The token has the form of a text, so nothing but its escapes is evaluated.
            found = json.dumps(ast.literal_eval(found))
        pieces.append(_CONSTANTS.get(found, found))
    return _parse_json(" ".join(pieces))


def _parse_yaml(text: str) -> Json:
    """Return a document in block style, every scalar as its text; raise ValueError for all that is more than that."""
    # Most results are no YAML.
    from ruamel.yaml import YAML, events

    builder, end, documents = _Builder(), 0, 0
    text = text.replace("\r\n", "\n").strip("\n")
    for event in YAML(typ="safe", pure=True).parse(text):
        match event:
            case events.DocumentStartEvent():
                documents += 1
                if documents > 1 or event.version or event.tags:
                    raise ValueError("a second document, or a directive")
            case events.AliasEvent():
                raise ValueError("an alias")
            case events.ScalarEvent() | events.CollectionStartEvent():
                if event.anchor is not None or event.ctag is not None:
                    raise ValueError("an anchor or a tag")
                # The parser passes over comments, which show only between its events.
                if "#" in text[end : event.start_mark.index]:
                    raise ValueError("a comment")
                if isinstance(event, events.ScalarEvent):
                    end = event.end_mark.index
                    builder.add_scalar(event.value, plain=event.style is None)
                else:
                    builder.open_collection(event, {} if isinstance(event, events.MappingStartEvent) else [])
            case events.CollectionEndEvent():
                builder.close_collection()
    if "#" in text[end:]:
        raise ValueError("a comment")
    return builder.root


class _Builder:
    """Builds mappings and lists from the parser's events."""

    def __init__(self) -> None:
        self.root: Json = None
        self._open: list[dict[str, Json] | list[Json]] = []
        self._keys: list[str | None] = []
        self._scalars = 0

    def add_scalar(self, text: str, *, plain: bool) -> None:
        """Take in a scalar: a key where a mapping waits for one; plain null and truth values say nothing."""
        if not self._open:
            raise ValueError("neither a mapping nor a list")
        if isinstance(within := self._open[-1], dict) and self._keys[-1] is None:
            if text in within or (plain and _NO_KEY.search(text)):
                raise ValueError("a key that stands there twice, or the beginning of a sentence")
            self._keys[-1] = text
            return
        self._scalars += 1
        if self._scalars > MAX_LEAVES:
            raise ValueError(f"more than {MAX_LEAVES} values")
        self._place(_CONSTANTS_OF_YAML.get(text, text) if plain else text)

    def open_collection(self, event: Any, value: dict[str, Json] | list[Json]) -> None:
        """Take in the beginning of a mapping or a list, which is still empty."""
        if len(self._open) >= MAX_DEPTH or (event.flow_style and not self._open):
            raise ValueError("nested too deep, or not in block style")
        self._place(value)
        self._open.append(value)
        self._keys.append(None)

    def close_collection(self) -> None:
        """Take in the end of the innermost mapping or list."""
        self._open.pop()
        self._keys.pop()

    def _place(self, value: Json) -> None:
        if not self._open:
            self.root = value
        elif isinstance(within := self._open[-1], list):
            within.append(value)
        else:
            if (key := self._keys[-1]) is None:
                raise ValueError("a key that is a mapping or a list")
            within[key], self._keys[-1] = value, None

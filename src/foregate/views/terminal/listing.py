"""Lists of rows: each names its columns once, for terminals, CSV, Parquet and the pages of the console."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO, Literal, TextIO

from msgspec import Struct
from rich.text import Text

from foregate.schemas.errors import UsageError
from foregate.views.terminal.layout import chop_text, count_columns, make_visible, shorten_text

Row = Mapping[str, Any]
"""A row as JSON values; what is said of it may need more keys than it has columns."""
Kind = Literal["text", "number", "time", "texts"]
Part = tuple[str, str]
"""Some of a line, and its style."""

_WIDE = 120
_LEAST = 24
"""Columns that the last cell has at least; with less, what stands before it has a line of its own."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings that make a spreadsheet take a cell for a formula or a command."""
_GROUP = 20_000
"""Rows of a Parquet file that are held in memory at once."""


class Column(Struct, frozen=True):
    """One column. `name` is its key in a row and its name in a file, "" where it is on a terminal alone.

    On a terminal it stands below `head`, unless that is "": as `show` says it, else its value. With `is_wide` it is
    shown on terminals of 120 columns or more, and `style` colours it. A page of the console says it in the words of
    `page`, where `{}` is the value.
    """

    name: str
    kind: Kind = "text"
    head: str = ""
    show: Callable[[Row], str] | None = None
    style: Callable[[Row], str] | None = None
    is_wide: bool = False
    page: str = ""

    def read_cell(self, row: Row) -> str:
        """Return what a terminal shows of a row; nothing in it is made visible yet."""
        if self.show is not None:
            return self.show(row)
        value = row[self.name]
        return format_minute(value) if self.kind == "time" else flatten(value)

    def find_style(self, row: Row) -> str:
        """Return how a terminal colours the cell of a row, "" for not at all."""
        return self.style(row) if self.style is not None else ""


class Listing(Struct, frozen=True):
    """A list of rows, each a `noun`.

    >>> [line.plain for line in Listing("fruit", (Column("name", head="NAME"),)).format([{"name": "fig"}], 80)]
    ['NAME', 'fig']
    """

    noun: str
    columns: tuple[Column, ...]

    def format(self, rows: Sequence[Row], width: int) -> Iterator[Text]:
        """Yield a line that names the columns and one for each row, in `width` columns; 0 cuts no line."""
        return (Text.assemble(*parts) for parts in self.lay_out(rows, width))

    def lay_out(self, rows: Sequence[Row], width: int) -> Iterator[list[Part]]:
        """Yield the same lines as their parts."""
        shown = [column for column in self.columns if column.head and (width >= _WIDE or not column.is_wide)]
        *first, last = shown
        cells = [[make_visible(column.read_cell(row)) for column in first] for row in rows]
        heads = [column.head for column in first]
        rooms = [max(map(count_columns, column)) for column in zip(heads, *cells, strict=True)]
        if rows:
            yield _lay_out([(head, "") for head in heads], (last.head, ""), first, rooms, width)[0]
        for row, texts in zip(rows, cells, strict=True):
            styled = [(text, column.find_style(row)) for text, column in zip(texts, first, strict=True)]
            yield from _lay_out(styled, (last.read_cell(row), last.find_style(row)), first, rooms, width)

    def write_csv(self, rows: Iterable[Row], file: TextIO) -> int:
        """Write rows as CSV, every cell quoted; return how many."""
        names, written = [column.name for column in self.columns if column.name], 0
        table = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
        table.writerow(names)
        for row in rows:
            table.writerow([defuse_cell(flatten(row[name])) for name in names])
            written += 1
        return written

    def write_parquet(self, rows: Iterable[Row], file: BinaryIO) -> int:
        """Write rows as a Parquet file; return how many. Raises UsageError where the library is missing."""
        try:
            import pyarrow as arrow
            from pyarrow import parquet
        except ModuleNotFoundError:
            raise UsageError("Parquet needs a library; run `pip install 'foregate[tuning]'`, or write --csv") from None
        text, time = arrow.string(), arrow.timestamp("us", tz="UTC")
        kinds = {"text": text, "number": arrow.int64(), "time": time, "texts": arrow.list_(text)}
        named = {column.name: column.kind for column in self.columns if column.name}
        schema = arrow.schema([(name, kinds[kind]) for name, kind in named.items()])
        written, rows = 0, iter(rows)
        with parquet.ParquetWriter(file, schema, compression="zstd") as table:
            while group := list(islice(rows, _GROUP)):
                cells = {name: [_convert(row[name], kind) for row in group] for name, kind in named.items()}
                table.write_table(arrow.table(cells, schema=schema))
                written += len(group)
        return written

    def describe_row(self, row: object) -> list[str]:
        """Return what a page says of a row besides; nothing of a column without a value."""
        told = ((column.page, getattr(row, column.name)) for column in self.columns if column.page)
        return [words.format(text) for words, value in told if (text := flatten(value))]


def _lay_out(
    cells: Sequence[Part], last: Part, columns: Sequence[Column], rooms: Sequence[int], width: int
) -> list[list[Part]]:
    """Return a row as one line, or as two where the last cell has too little room beside the others."""
    head: list[Part] = []
    for (text, kind), column, room in zip(cells, columns, rooms, strict=True):
        gap = " " * (room - count_columns(text))
        head.append((f"{gap}{text}  " if column.kind == "number" else f"{text}{gap}  ", kind))
    left = width - sum(rooms) - 2 * len(rooms)
    if head and width and left < _LEAST:
        first = "".join(text for text, _ in head).rstrip()
        return [[(chop_text(first, width)[0], "dim")], [("    " + shorten_text(last[0], width - 4), last[1])]]
    if text := shorten_text(last[0], max(1, left) if width else 0):
        return [[*head, (text, last[1])]]
    return [[*head[:-1], (head[-1][0].rstrip(), head[-1][1])]] if head else [[]]


def defuse_cell(text: str) -> str:
    """Return a text as a cell that no spreadsheet reads as a formula, with what nobody would see made visible.

    >>> defuse_cell("=HYPERLINK(1)"), defuse_cell("rm -rf build")
    ("'=HYPERLINK(1)", 'rm -rf build')
    """
    shown = make_visible(text)
    return f"'{shown}" if text.lstrip(" ").startswith(_FORMULA) or text.startswith(("\t", "\r", "\n")) else shown


def flatten(value: object) -> str:
    """Return a value as the text of a cell."""
    if isinstance(value, (tuple, list)):
        return " ".join(value)
    return "" if value is None else str(value)


def format_minute(time: str) -> str:
    """Return a time as a list shows it: to the minute, in UTC.

    >>> format_minute("2026-11-21T06:45:12.3Z")
    '2026-11-21 06:45'
    """
    return time[:16].replace("T", " ")


def _convert(value: Any, kind: Kind) -> Any:
    """Return a value as a column of Parquet holds it; a time that says none is left out."""
    from datetime import datetime

    if kind != "time":
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None

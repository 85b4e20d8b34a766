"""Lists as files for other programs: CSV that no spreadsheet runs anything of, and Parquet."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO

from msgspec import Struct

from foregate.cli.commands.new_file import open_new_file
from foregate.cli.commands.options import print_text
from foregate.cli.terminal.layout import pluralise
from foregate.schemas.errors import UsageError
from foregate.schemas.visible import make_visible

Columns = Mapping[str, Literal["text", "number", "time", "texts"]]
"""The columns of a list, and what stands in each."""
Row = Mapping[str, Any]
DECISIONS: Columns = {
    "session": "text",
    "seq": "number",
    "time": "time",
    "gate": "text",
    "code": "text",
    "standing": "text",
    "mode": "text",
    "severity": "text",
    "tool": "text",
    "target": "text",
    "call": "text",
    "rules": "texts",
    "key": "text",
    "policy": "text",
    "approver": "text",
    "origin": "text",
    "risk": "number",
    "summary": "text",
}
SESSIONS: Columns = {
    "session": "text",
    "state": "text",
    "asked": "text",
    "started": "time",
    "last": "time",
    "ended": "time",
    "workspace": "text",
    "model": "text",
    "by": "text",
    "events": "number",
    "tasks": "number",
    "allowed": "number",
    "asked_about": "number",
    "held": "number",
    "denied": "number",
    "follows": "text",
    "problem": "text",
}
PASSAGES: Columns = {"session": "text", "seq": "number", "time": "time", "what": "text", "excerpt": "text"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings that make a spreadsheet take a cell for a formula or a command."""
_GROUP = 20_000
"""Rows of a Parquet file that are held in memory at once."""


class Forms(Struct, frozen=True):
    """In which form a list is wanted: `csv` and `parquet` name files, `-` is standard output; one form at most.

    Raises UsageError where several are wanted.
    """

    csv: str
    parquet: Path | None
    overwrite: bool
    as_json: bool

    def __post_init__(self) -> None:
        if sum(map(bool, (self.csv, self.parquet, self.as_json))) > 1:
            raise UsageError("`--json`, `--csv` and `--parquet` are three forms; choose one")

    def write(self, rows: Iterable[Row], columns: Columns, noun: str) -> bool:
        """Write a list to the file that is wanted, and say how much; return whether one is."""
        if self.csv == "-":
            write_csv(rows, columns, sys.stdout)
        elif self.csv:
            with open_new_file(Path(self.csv), replacing=self.overwrite) as file:
                print_text(f"{pluralise(write_csv(rows, columns, file), noun)}: {self.csv}")
        elif self.parquet is not None:
            written = write_parquet(rows, columns, self.parquet, replacing=self.overwrite)
            print_text(f"{pluralise(written, noun)}: {self.parquet}")
        return bool(self.csv) or self.parquet is not None


def write_csv(rows: Iterable[Row], columns: Columns, file: TextIO) -> int:
    """Write rows as CSV, every cell quoted; return how many."""
    written = 0
    table = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    table.writerow(columns)
    for row in rows:
        table.writerow([defuse_cell(_flatten(row[column])) for column in columns])
        written += 1
    return written


def defuse_cell(text: str) -> str:
    """Return a text as a cell that no spreadsheet reads as a formula, with what nobody would see made visible.

    >>> defuse_cell("=HYPERLINK(1)"), defuse_cell("rm -rf build")
    ("'=HYPERLINK(1)", 'rm -rf build')
    """
    shown = make_visible(text)
    return f"'{shown}" if text.lstrip(" ").startswith(_FORMULA) or text.startswith(("\t", "\r", "\n")) else shown


def write_parquet(rows: Iterable[Row], columns: Columns, path: Path, *, replacing: bool) -> int:
    """Write rows as a Parquet file; return how many. Raises UsageError where the library is missing."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise UsageError("Parquet needs a library; run `pip install 'foregate[tuning]'`, or write --csv") from None
    text, time = arrow.string(), arrow.timestamp("us", tz="UTC")
    kinds = {"text": text, "number": arrow.int64(), "time": time, "texts": arrow.list_(text)}
    schema = arrow.schema([(column, kinds[kind]) for column, kind in columns.items()])
    written, rows = 0, iter(rows)
    with _open_binary(path, replacing) as file, parquet.ParquetWriter(file, schema, compression="zstd") as table:
        while group := list(islice(rows, _GROUP)):
            cells = {column: [_convert(row[column], kind) for row in group] for column, kind in columns.items()}
            table.write_table(arrow.table(cells, schema=schema))
            written += len(group)
    return written


@contextmanager
def _open_binary(path: Path, replacing: bool) -> Iterator[BinaryIO]:
    with open_new_file(path, replacing=replacing) as file:
        yield file.buffer
        file.buffer.flush()


def _flatten(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return " ".join(value)
    return "" if value is None else str(value)


def _convert(value: Any, kind: str) -> Any:
    """Return a value as a column of Parquet holds it; a time that says none is left out."""
    from datetime import datetime

    if kind != "time":
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None

"""Decisions as files for other programs: CSV that no spreadsheet runs anything of, and Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from foregate.cli.commands.trajectories import open_new_file
from foregate.schemas.errors import UsageError
from foregate.schemas.visible import make_visible

if TYPE_CHECKING:
    from foregate.telemetry.index.rows import DecisionRow

COLUMNS = (
    *("session", "seq", "time", "gate", "code", "standing", "mode", "severity", "tool", "target", "call"),
    *("rules", "key", "policy", "approver", "origin", "risk", "summary"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings that make a spreadsheet take a cell for a formula or a command."""
_GROUP = 20_000
"""Rows of a Parquet file that are held in memory at once."""


def write_csv(rows: Iterable[DecisionRow], file: TextIO) -> int:
    """Write rows as CSV, every cell quoted; return how many."""
    written = 0
    table = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    table.writerow(COLUMNS)
    for row in rows:
        table.writerow([defuse_cell(_flatten(getattr(row, column))) for column in COLUMNS])
        written += 1
    return written


def defuse_cell(text: str) -> str:
    """Return a text as a cell that no spreadsheet reads as a formula, with what nobody would see made visible.

    >>> defuse_cell("=HYPERLINK(1)"), defuse_cell("rm -rf build")
    ("'=HYPERLINK(1)", 'rm -rf build')
    """
    shown = make_visible(text)
    return f"'{shown}" if text.lstrip(" ").startswith(_FORMULA) or text.startswith(("\t", "\r", "\n")) else shown


def write_parquet(rows: Iterable[DecisionRow], path: Path, *, replacing: bool) -> int:
    """Write rows as a Parquet file; return how many. Raises UsageError where the library is missing."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise UsageError("Parquet needs a library; run `pip install 'foregate[tuning]'`, or write --csv") from None
    text = arrow.string()
    kinds = {"seq": arrow.int64(), "risk": arrow.int64(), "rules": arrow.list_(text)}
    kinds["time"] = arrow.timestamp("us", tz="UTC")
    schema = arrow.schema([(column, kinds.get(column, text)) for column in COLUMNS])
    written, rows = 0, iter(rows)
    with _open_binary(path, replacing) as file, parquet.ParquetWriter(file, schema, compression="zstd") as table:
        while group := list(islice(rows, _GROUP)):
            columns: dict[str, list[Any]] = {column: [getattr(row, column) for row in group] for column in COLUMNS}
            columns["time"] = [_read_time(time) for time in columns["time"]]
            columns["rules"] = [list(rules) for rules in columns["rules"]]
            table.write_table(arrow.table(columns, schema=schema))
            written += len(group)
    return written


@contextmanager
def _open_binary(path: Path, replacing: bool) -> Iterator[BinaryIO]:
    with open_new_file(path, replacing=replacing) as file:
        yield file.buffer
        file.buffer.flush()


def _flatten(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(value)
    return "" if value is None else str(value)


def _read_time(text: str) -> Any:
    from datetime import datetime

    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None

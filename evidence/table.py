"""The rows of a text that is a table and nothing else: a Markdown table, or values between commas, semicolons or tabs.

What two readers could read differently is no table, so that no cell hides a row from one of them. A cell can still hold
a row more where the tool puts a line break into it as it is.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO

from foregate.schemas.late_pattern import compile_late
from foregate.schemas.value import read_value, trim_text

_SIGNS = ",;\t"
# "Unit price (EUR)".
_NAME = compile_late(r"[^\W\d](?:[^\W\d]|[ .()/#%&'+$\u20ac-]){0,59}+")
"""A name of a column; none holds a digit, as accounts, dates and most codes do."""
# ":---".
_RULE = compile_late(r"[ \t]*+:?-++:?[ \t]*+")
"""A cell of the line between the names and the rows of a Markdown table."""
# "## Prices\n\n".
_HEADING = compile_late(r"#{1,6}[ \t][^\n]*+\n[ \t]*+\n?")


def read_table(text: str) -> list[dict[str, str]]:
    """Return the rows of a table by the names of their columns, each cell as written; raise ValueError for none.

    The whole text is the table, one row at least, with as many cells in each row as there are names. A Markdown table
    may follow a heading; it has pipes around each line and none within a cell. Other words around it make it prose.
    Values between signs have two columns at least, one sign, a row in each line, and no blanks around names. Names are
    words, and different ones: a first line that is a row would go missing among the candidates.
    """
    text = text.replace("\r\n", "\n").strip("\n")
    if "\r" in text:
        raise ValueError("a line that ends in an odd way")
    rows = _split_markdown(text) if text.startswith(("|", "#")) else _split_signs(text)
    names = next(rows, [])
    _check_names(names)
    found = [dict(zip(names, row, strict=True)) for row in rows]
    if not found or any("\n" in cell for row in found for cell in row.values()):
        raise ValueError("no row, or several lines in quotes that some readers do not see")
    return found


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        value = read_value(name) if _NAME.fullmatch(name) else None
        if value is None or value.kind != "words" or name.endswith(" "):
            raise ValueError("a name that could be a value")
    if len({trim_text(name).casefold() for name in names}) < len(names):
        raise ValueError("a name that stands there twice")


def _split_markdown(text: str) -> Iterator[list[str]]:
    """Yield the names and then the rows of a Markdown table."""
    if (heading := _HEADING.match(text)) is not None:
        text = text[heading.end() :]
    if "\\|" in text:
        raise ValueError("a pipe that some readers take for the end of a cell")
    lines = [line.strip(" \t") for line in text.split("\n")]
    if len(lines) < 2 or not all(line.startswith("|") and line.endswith("|") and len(line) > 1 for line in lines):
        raise ValueError("a line without pipes around it")
    rows = [[cell.strip(" \t") for cell in line[1:-1].split("|")] for line in lines]
    names, rule = rows[:2]
    if len(rule) != len(names) or not all(map(_RULE.fullmatch, rule)):
        raise ValueError("no line between the names and the rows")
    yield names
    yield from rows[2:]


def _split_signs(text: str) -> Iterator[list[str]]:
    """Yield the names and then the rows of values between signs, quoted as `csv` writes them."""
    first = text.partition("\n")[0]
    signs = [sign for sign in _SIGNS if sign in first]
    if len(signs) != 1:
        raise ValueError("no sign between names, or several")
    yield from csv.reader(StringIO(text, newline=""), delimiter=signs[0], strict=True)

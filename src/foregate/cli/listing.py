"""How a list of rows is printed or written: for people, as lines of JSON, as CSV and as Parquet."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import typer
from msgspec import Struct

from foregate.cli.new_file import open_new_file
from foregate.cli.options import measure_terminal, print_json_rows, print_text
from foregate.schemas.errors import UsageError
from foregate.views.terminal.layout import build_console, pluralise
from foregate.views.terminal.listing import Listing, Row


class Forms(Struct, frozen=True):
    """In which form a list is wanted: `csv` and `parquet` name files, `-` is standard output; one form at most.

    Raises UsageError where several are wanted.
    """

    csv: str = ""
    parquet: Path | None = None
    overwrite: bool = False
    as_json: bool = False

    def __post_init__(self) -> None:
        if sum(map(bool, (self.csv, self.parquet, self.as_json))) > 1:
            raise UsageError("`--json`, `--csv` and `--parquet` are three forms; choose one")

    @property
    def are_for_people(self) -> bool:
        """Whether the list is for a terminal."""
        return not (self.csv or self.parquet or self.as_json)


def show_list(listing: Listing, rows: Iterable[Row], forms: Forms) -> None:
    """Print a list, or write it to the file that is wanted and say how much."""
    if forms.as_json:
        print_json_rows(dict(row) for row in rows)
    elif forms.csv == "-":
        listing.write_csv(rows, sys.stdout)
    elif path := Path(forms.csv) if forms.csv else forms.parquet:
        with open_new_file(path, replacing=forms.overwrite) as file:
            written = listing.write_csv(rows, file) if forms.csv else listing.write_parquet(rows, file.buffer)
            file.buffer.flush()
        print_text(f"{pluralise(written, listing.noun)}: {path}")
    elif width := measure_terminal():
        console = build_console()
        for line in listing.format(list(rows), width):
            console.print(line, soft_wrap=True)
    else:
        for parts in listing.lay_out(list(rows), 0):
            typer.echo("".join(text for text, _ in parts))

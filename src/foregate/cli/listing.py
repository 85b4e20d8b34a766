"""How a list of rows is printed or written: for people, as JSON, CSV and Parquet, and never over a file that exists."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import typer
from msgspec import Struct

from foregate.cli.options import measure_terminal, print_json_rows, print_text
from foregate.schemas.errors import UsageError
from foregate.views.terminal.layout import build_console, pluralise
from foregate.views.terminal.listing import Listing, Row


def write_new(file: Path, text: str) -> None:
    """Write a file that is not there yet; raise UsageError where it is, or cannot be written."""
    try:
        with file.open("x", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(f"`{file}` is there already, so nothing was written; name another file") from None
    except OSError as error:
        raise _build_error(file, error) from None


@contextmanager
def open_new_file(path: Path, *, replacing: bool = False, flag: str = "--overwrite") -> Iterator[TextIO]:
    """Yield a private text file that gets its name when the block ends well. Raises UsageError where there is something
    already (unless `replacing` a file, as `flag` wants) or nothing can be written."""
    if os.path.lexists(path) and not (replacing and path.is_file()):
        raise UsageError(f"there is a `{path}` already; name another file, or write `{flag}` for a file")
    part = path.with_name(f".{path.name[:200]}.{os.urandom(4).hex()}")
    try:
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _build_error(path, error) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            yield file
        if replacing:
            part.replace(path)
        else:
            # Unlike a rename it fails where something came there meanwhile.
            os.link(part, path)
    except FileExistsError:
        raise UsageError(f"there is a `{path}` now; it was not replaced, and nothing was written") from None
    except OSError as error:
        raise _build_error(path, error) from None
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _build_error(path: Path, error: OSError) -> UsageError:
    return UsageError(f"`{path}` cannot be written ({error.strerror}); name a file in a folder of yours")


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

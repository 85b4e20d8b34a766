"""A table that is derived from a log and kept in Parquet files: what is new of a session goes into a further file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from foregate.schemas.errors import LogError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.protocols import Readable
from foregate.telemetry.log.temporary_file import is_temporary, replace_file

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_FILES = 16
"""Files of a table; with one more they are made one."""
_CONTENTS = "contents.json"
_JOINED = "joined.tmp"
_NAME = compile_late(rf"[0-9]{{3}}-[0-9a-f]{{16}}\.parquet|{re.escape(_JOINED)}")
"""Names of files that a table makes; no other is ever removed."""
Columns = Mapping[str, Literal["text", "number"]]
Head = tuple[int, str]
"""Number and hash of an event."""


class TableFile(Struct, frozen=True):
    """A file by its name, the SHA-256 of its bytes, and its rows."""

    name: str
    sum: str
    rows: int


class Contents(Struct, frozen=True):
    """What a table holds: under which `stamp` it was made, its files, and of each session number and hash of the event
    up to which it goes. `texts` are kept with it."""

    stamp: str
    files: tuple[TableFile, ...] = ()
    covered: Mapping[str, Head] = {}
    texts: Mapping[str, str] = {}


@lru_cache(maxsize=256)
def hash_file(path: Path, about: tuple[int, ...]) -> str:
    """Return the SHA-256 of a file; it is read again where what is said `about` it is another."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class CubeTable:
    """The table in a folder, made under a stamp: what other code has made, or what is damaged, is forgotten.

    Whoever reads or writes it holds the lock of the cube. Raises OSError where the folder cannot be used.
    """

    def __init__(self, folder: Path, columns: Columns, stamp: str) -> None:
        self.folder, self._columns, self._stamp = folder, columns, stamp
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.contents = self._read() or Contents(stamp)
        self._drop_others()

    def _read(self) -> Contents | None:
        with suppress(OSError, msgspec.MsgspecError):
            found = msgspec.json.decode((self.folder / _CONTENTS).read_bytes(), type=Contents)
            if found.stamp == self._stamp and all(self._hash_file(one.name) == one.sum for one in found.files):
                return found
        return None

    def _hash_file(self, name: str) -> str:
        path = self.folder / name
        about = path.stat()
        return hash_file(path, (about.st_ino, about.st_size, about.st_mtime_ns)) if Path(name).name == name else ""

    def _drop_others(self) -> None:
        """Remove what is no file of the table: of an earlier time, or left by a process that ended while writing."""
        known = {one.name for one in self.contents.files}
        for path in self.folder.iterdir():
            if path.name not in known and (_NAME.fullmatch(path.name) or is_temporary(path.name)):
                path.unlink()

    def forget(self) -> None:
        """Begin anew."""
        self._write(Contents(self._stamp))

    def find_begin(self, log: Readable, session: str, head: Head) -> int | None:
        """Return the event up to which a session is covered, None where that is of another history than its head."""
        seq, hash_ = self.contents.covered.get(session, (0, ""))
        if seq == 0 or (seq, hash_) == head:
            return seq
        with suppress(LogError):
            events = log.events(session, after=seq - 1, until=seq) if seq < head[0] else ()
            return seq if next((event.hash for event in events), "") == hash_ else None
        return None

    @property
    def paths(self) -> list[str]:
        """The files, to be read by DuckDB."""
        return [str(self.folder / one.name) for one in self.contents.files]

    def add(
        self,
        rows: Sequence[Sequence[Any]],
        covered: Mapping[str, Head],
        connection: DuckDBPyConnection,
        texts: Mapping[str, str] | None = None,
    ) -> None:
        """Add rows, and say up to where sessions are covered now."""
        files, known = list(self.contents.files), self.contents
        if rows:
            files.append(self._write_rows(rows, len(files)))
        if len(files) > MOST_FILES:
            files = [self._join(files, connection)]
        self._write(Contents(self._stamp, tuple(files), {**known.covered, **covered}, {**known.texts, **(texts or {})}))

    def _write_rows(self, rows: Sequence[Sequence[Any]], number: int) -> TableFile:
        import pyarrow as arrow
        from pyarrow import parquet

        kinds = {"text": arrow.string(), "number": arrow.int64()}
        schema = arrow.schema([(name, kinds[kind]) for name, kind in self._columns.items()])
        cells = dict(zip(self._columns, zip(*rows, strict=True), strict=True))
        buffer = BytesIO()
        parquet.write_table(arrow.table(cells, schema=schema), buffer, compression="zstd")
        return self._keep(buffer.getvalue(), number, len(rows))

    def _join(self, files: Sequence[TableFile], connection: DuckDBPyConnection) -> TableFile:
        """Make one file of all."""
        made = self.folder / _JOINED
        paths = [str(self.folder / one.name) for one in files]
        where = str(made).replace("'", "''")
        connection.execute(f"COPY (FROM read_parquet(?)) TO '{where}' (FORMAT parquet, COMPRESSION zstd)", [paths])
        return self._keep(made.read_bytes(), len(files), sum(one.rows for one in files))

    def _keep(self, data: bytes, number: int, rows: int) -> TableFile:
        sum_ = hashlib.sha256(data).hexdigest()
        name = f"{number:03}-{sum_[:16]}.parquet"
        replace_file(self.folder / name, data)
        return TableFile(name, sum_, rows)

    def _write(self, contents: Contents) -> None:
        replace_file(self.folder / _CONTENTS, msgspec.json.encode(contents))
        self.contents = contents
        self._drop_others()


def list_missing(table: CubeTable, log: Readable, heads: Mapping[str, Head]) -> dict[str, int]:
    """Return the sessions that are not covered up to their heads, each with the event to begin behind.

    Where one is of another history the table begins anew.
    """
    begins = {session: table.find_begin(log, session, head) for session, head in heads.items()}
    if None in begins.values():
        table.forget()
        begins = dict.fromkeys(heads, 0)
    return {session: begin or 0 for session, begin in begins.items() if begin != heads[session][0]}

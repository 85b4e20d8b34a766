"""What the command line prints of a recorded log that stands in a SQLite file, written as such files are today."""

from __future__ import annotations

import io
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from foregate.cli.app import main
from tests.corpus.log import Log, text

_TABLES = """PRAGMA application_id = 1179079749;
PRAGMA user_version = 2;
PRAGMA journal_mode = WAL;
CREATE TABLE leases (
  number INTEGER PRIMARY KEY,
  session TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  pid INTEGER NOT NULL,
  started TEXT NOT NULL,
  boot TEXT NOT NULL,
  place TEXT NOT NULL,
  fence INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  hash TEXT NOT NULL
) STRICT;
CREATE TABLE events (
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  text TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT;
"""
"""How a file of today is made; SQLite keeps the text of its tables to the letter."""


def run_commands(log: Log) -> str:
    """Exit codes and output of the commands that read a log, beside which no stored bytes are."""
    with tempfile.TemporaryDirectory() as folder, _home(Path(folder), log):
        return text(line for command in _commands(log) for line in _run(command))


def _commands(log: Log) -> Iterator[list[str]]:
    yield ["audit", "list", "--json"]
    yield ["audit", "list"]
    yield ["plans", "list", "--json"]
    yield ["plans", "list"]
    yield ["audit", "stats"]
    yield ["policy", "what-if", "classic"]
    for session in log.sessions:
        head = ":".join(map(str, log.head_anchor(session)))
        yield ["audit", "verify", "--no-blobs", session]
        yield ["audit", "verify", "--no-blobs", session, "--json", "--head", head]
        yield ["audit", "show", session]
        yield ["audit", "show", session, "--notes", "--json"]
        if event := next(log.events(session, kinds=("turn_judged",)), None):
            yield ["audit", "explain", f"{session}/{event.seq}.validity"]
        if next(log.events(session, kinds=("plan_proposed",)), None):
            yield ["plans", "show", session]


def _run(arguments: list[str]) -> Iterator[str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    yield f"$ {' '.join(arguments)}"
    yield from out.getvalue().splitlines()
    yield from (f"! {line}" for line in err.getvalue().splitlines())
    yield f"exit {code}"


@contextmanager
def _home(folder: Path, log: Log) -> Iterator[None]:
    """Make `folder` the home that holds the log, for as long as the block runs."""
    folder.chmod(0o700)
    with closing(sqlite3.connect(folder / "events.db")) as connection:
        connection.executescript(_TABLES)
        for session in log.sessions:
            lease = (session, "", 0, "", "", "", 1, *log.head_anchor(session))
            connection.execute("INSERT INTO leases VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)", lease)
            rows = [(session, *row) for row in log.lines(session)]
            connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
        connection.commit()
    changed = {"FOREGATE_HOME": str(folder), "COLUMNS": "80"}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

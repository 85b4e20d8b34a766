"""Counts the Python calls and the SQL statements of a piece of work, in a process of its own.

Counted are all calls of the main thread, those of libraries included. Left out is what no reader of the code could
foretell: how often the event loop goes round while it waits, what loading a module takes, and waiting for a program.
"""

from __future__ import annotations

import functools
import gc
import itertools
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = re.compile(r"<frozen importlib|/asyncio/|/concurrent/futures/|/(?:selectors|threading|subprocess)\.py$")
"""Files whose calls depend on time and machine: `/usr/lib/python3.11/asyncio/events.py`."""
_PLACE = re.compile(r".*(?:/site-packages/|/python3\.\d+/|src/foregate/)")
"""What stands before the name of a file: `/home/ann/foregate/src/foregate/`."""


@dataclass(slots=True)
class Count:
    """How often each function was called and each kind of statement executed, by name."""

    functions: Counter[str] = field(default_factory=Counter)
    statements: Counter[str] = field(default_factory=Counter)

    @property
    def calls(self) -> int:
        return self.functions.total()

    def __floordiv__(self, times: int) -> Count:
        """Return the count of one of several equal pieces of work, rounded down."""
        return Count(
            Counter({name: count // times for name, count in self.functions.items()}),
            Counter({name: count // times for name, count in self.statements.items()}),
        )


_RUN = """
import sys
sys.path[:0] = sys.argv[2:]
import counting
counting.make_repeatable()  # before anything keeps what it replaces
import work
print(counting.write_counts(work.WORK[sys.argv[1]]()))
"""
_statements: list[str] = []
"""What all connections of this process have executed."""


@contextmanager
def counted(count: Count) -> Iterator[None]:
    """Add to `count` what a block calls and executes."""
    seen: Counter[CodeType] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen[frame.f_code] += 1

    gc.collect()
    gc.disable()  # what is thrown away meanwhile would call what waits for that
    _statements.clear()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        gc.enable()
    count.statements.update(map(_name_statement, _statements))
    for code, times in seen.items():
        if LEFT_OUT.search(code.co_filename) is None and code.co_filename != __file__:
            count.functions[f"{_PLACE.sub('', code.co_filename).removeprefix(f'{ROOT}/')} {code.co_qualname}"] += times


def _name_statement(said: str) -> str:
    """Return verb and table of a statement: `INSERT events`."""
    words = re.sub(r"'[^']*'", "", said).split()
    verb = words[0].upper() if words else ""
    after = {"INSERT": "INTO", "DELETE": "FROM", "SELECT": "FROM", "UPDATE": "UPDATE"}.get(verb)
    upper = [word.upper() for word in words]
    place = upper.index(after) + 1 if after in upper else 1
    return " ".join([verb, *(word.strip("(),;") for word in words[place : place + 1])])


def make_repeatable() -> None:
    """Let every look at the clock be a millisecond after the one before, and note the statements of all connections."""
    ticks = itertools.count(1_790_000_000_000_000_000, 1_000_000)
    time.time_ns = functools.partial(next, ticks)  # no function in Python, which would be counted
    connect = sqlite3.connect

    def watched(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)
        connection.set_trace_callback(_statements.append)
        return connection

    sqlite3.connect = watched


def measure(work: str) -> dict[str, Count]:
    """Return what a piece of work of `work.py` counts, by name: in a process in which nothing was done before."""
    command = [sys.executable, "-s", "-c", _RUN, work, str(Path(__file__).parent), str(ROOT / "benchmarks")]
    with tempfile.TemporaryDirectory() as home:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own = {"HOME": home, "FOREGATE_HOME": f"{home}/foregate", "PYTHONHASHSEED": "0", "TMPDIR": home}
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env={**kept, **own}, cwd=home)
    found = json.loads(done.stdout)
    return {name: Count(Counter(one["functions"]), Counter(one["statements"])) for name, one in found.items()}


def write_counts(found: dict[str, Count]) -> str:
    """Return counts as the JSON that `measure` reads."""
    return json.dumps({name: {"functions": one.functions, "statements": one.statements} for name, one in found.items()})

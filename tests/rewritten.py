"""Logs written anew by somebody who can also compute hashes: every event chained anew, and the noted head with them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.schemas import strict_json
from foregate.schemas.event import GENESIS
from foregate.schemas.protocols import Blobs
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog
from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.agent.corpus import ASK_EDITS, BOB, READ, TALK, rules
from tests.agent.world import World

Lines = list[dict[str, Any]]
"""What the lines of a log hold, as JSON that may be changed."""
Rows = list[tuple[int, str, str]]
"""Number, text and hash of each event."""


def chain_anew(texts: Sequence[str], change: Callable[[Lines], object]) -> Rows:
    """Return the rows of a log whose lines somebody changed: numbered, counted and chained anew."""
    lines: Lines = [json.loads(text) for text in texts]
    change(lines)
    rows: Rows = []
    prev = GENESIS
    for seq, line in enumerate(lines, start=1):
        if line["kind"] == "session_ended":
            line["body"]["events"] = seq
        text = strict_json.encode_record({**line, "seq": seq, "prev": prev}).decode()
        prev = strict_json.sha256(text.encode())
        rows.append((seq, text, prev))
    return rows


def rewrite_log(path: Path, session: str, change: Callable[[Lines], object]) -> None:
    """Write a session of a closed log anew, and the row beside its lease that notes its head."""
    with closing(SqliteLog(path, create=False)) as log:
        rows = chain_anew([text for _, text, _ in log.lines(session)], change)
    intruder = sqlite3.connect(path, isolation_level=None)
    tables = {name for (name,) in intruder.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    for table in ("events", *({"cuts", "snapshots"} & tables)):
        intruder.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
    insert = "INSERT INTO events (session, seq, text, hash) VALUES (?, ?, ?, ?)"
    intruder.executemany(insert, [(session, *row) for row in rows])
    intruder.execute("UPDATE leases SET seq = ?, hash = ? WHERE session = ?", (rows[-1][0], rows[-1][2], session))
    intruder.close()


def find_line(lines: Lines, kind: str, number: int = 0) -> dict[str, Any]:
    """Return the n-th line of a kind; negative counts from the end."""
    return [line for line in lines if line["kind"] == kind][number]


MEND = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
MORE = ("edit_file", {"path": "a.txt", "old": "cat", "new": "cats"})


async def record_edits(path: Path, name: str = "s", blobs: Blobs | None = None) -> None:
    """Record an ended session at `path`: a read, an edit a person refused, and one they said yes to."""
    with closing(SqliteLog(path)) as log:
        world = World(log=cast(MemoryLog, log), policy=rules(ASK_EDITS))
        world.blobs = cast(MemoryBlobs, blobs) if blobs is not None else world.blobs
        script = [calls(READ, text=TALK), calls(MEND), calls(MORE), says("done")]
        session = await world.open(script, ["no", "yes"], name=name)
        await run(session, "mend a.txt, and make it many cats")
        await session.close()
        assert world.workspace.read("a.txt") == b"teh cats"


async def record_greeting(path: Path, name: str = "s") -> None:
    """Record an ended session at `path`: a message that the person asked for in so many words, and nobody else."""
    with closing(SqliteLog(path)) as log:
        world = World(log=cast(MemoryLog, log))
        session = await world.open(
            [calls(("post", {"to": BOB, "text": "hello"}), text=TALK), says("posted")], name=name
        )
        await run(session, f"send a greeting to {BOB}")
        await session.close()
        assert world.sent == [BOB]

"""What it costs to verify a log: against the bare SHA-256 over its bytes, for a million events, and judging again.

Verifying also reads every event, checks that each continues the chain, what events say of each other, and that nothing
ran without leave. Judging every turn again is compared with what-if over the same log, on all cores.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from endless import SESSION, opened, turns
from figures import Report
from whatif import judged_again

from foregate.schemas import strict_json
from foregate.schemas.event import GENESIS
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.verify import verify_rows
from foregate.tuning.pieces import cores
from foregate.tuning.proving import SessionProver
from foregate.tuning.rejudging import judge_sessions_again

TURNS = 1000
MILLION, SECONDS, RATIO, SPEED = 1_000_000, 60, 20, 0.8
"""Seconds that a million events may take on one core, and what judging again may lose against what-if."""

Row = tuple[int, str, str]


def main() -> int:
    """Print the three figures; return 1 where one of them misses its bound."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--sessions", type=int, default=25, help="sessions of the log; 250 make a million events")
    count = reader.parse_args().sessions
    rows = asyncio.run(recorded())
    rounds = [(hashed(rows), verified(rows)) for _ in range(11)]
    plain, ours = (min(times) / 1e6 for times in zip(*rounds, strict=True))
    report = Report(
        "verify", "telemetry/queries", "telemetry/log", "src/foregate/tuning", "gates", "evidence", "schemas"
    )
    note = f"{ours:.1f} ms against {plain:.1f} ms for {len(rows)} events"
    report.add("verifying over hashing", ours / plain, "x", most=RATIO, note=note)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        written(path, rows, count)
        with closing(SqliteLog(path, create=False)) as log:
            size = count * len(rows)
            taken = proven(log) / size * MILLION
            note = f"chain and meaning, on one core; by {size} in {count} sessions"
            report.add("a million events", taken, "s", most=SECONDS, note=note)
            names = asyncio.run(log.sessions())
            again, whatif = judged(log, names), judged_again(log, cores(), names)
            note = f"{again:.0f} turns judged again a second, against {whatif:.0f} of what-if, on {cores()} cores"
            report.add("speed over what-if", again / whatif, "x", least=SPEED, note=note)
    return report.end()


async def recorded() -> list[Row]:
    """Return the rows of a session."""
    log = MemoryLog()
    await turns(await opened(log), TURNS)
    return list(log.lines(SESSION))


def chained(rows: Sequence[Row], session: str) -> Iterator[Row]:
    """Yield the rows of a session under another name."""
    prev = GENESIS
    for seq, text, _ in rows:
        text = strict_json.encode_record({**json.loads(text), "session": session, "prev": prev}).decode()
        prev = strict_json.sha256(text.encode())
        yield seq, text, prev


def written(path: Path, rows: Sequence[Row], count: int) -> None:
    """Write a log of `count` sessions to a file, as another program could."""
    import sqlite3

    SqliteLog(path).close()
    with closing(sqlite3.connect(path)) as file:
        for number in range(count):
            name = SESSION if number == 0 else f"{SESSION}{number:03}"
            mine = list(chained(rows, name))
            insert = "INSERT INTO events (session, seq, text, hash) VALUES (?, ?, ?, ?)"
            file.executemany(insert, [(name, *row) for row in mine])
            lease = "INSERT INTO leases (session, number, owner, pid, started, boot, place, fence, seq, hash)"
            values = (name, number + 1, "", 0, "", "", "", 1, len(mine), mine[-1][2])
            file.execute(f"{lease} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            file.commit()


def hashed(rows: Sequence[Row]) -> int:
    """Hash the bytes of every event; return the nanoseconds of processor time."""
    lines = [text.encode() for _, text, _ in rows]
    start = time.process_time_ns()
    for line in lines:
        hashlib.sha256(line).hexdigest()
    return time.process_time_ns() - start


def verified(rows: Sequence[Row]) -> int:
    """Verify every event; return the nanoseconds of processor time."""
    start = time.process_time_ns()
    result = verify_rows(rows, SESSION)
    taken = time.process_time_ns() - start
    assert result.ok, result.sentence
    return taken


def proven(log: SqliteLog) -> float:
    """Verify all sessions of a file without judging a turn again; return the seconds of processor time."""
    start = time.process_time()
    for proof in SessionProver(log, judges=False).prove(asyncio.run(log.sessions())):
        assert proof.found.ok, proof.found.sentence
    return time.process_time() - start


def judged(log: SqliteLog, sessions: Sequence[str]) -> float:
    """Judge every turn of sessions again; return the turns per second."""
    start = time.perf_counter()
    found = list(judge_sessions_again(log, sessions))
    assert not any(one.defects for one in found), found[0].defects
    return sum(sum(one.turns.values()) for one in found) / (time.perf_counter() - start)


if __name__ == "__main__":
    sys.exit(main())

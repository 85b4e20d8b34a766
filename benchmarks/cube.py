"""What a sweep from the cube takes, as a ratio to one plain grouping of the same decisions by gate and value.

The decisions are made up: ten million, by nine gates, each turning at one of a hundred values of a key. DuckDB writes
them into the cube, and the cube sums them up as `foregate policy sweep` does.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from figures import Report

from foregate.policy.source.load import default_policy
from foregate.schemas import strict_json
from foregate.schemas.codes import GATES
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.reviews import Reviews
from foregate.tuning.cube import Cube, name_table

DECISIONS, PLACES, KEY = 10_000_000, 100, "uncertainty.threshold"
ROUNDS, BOUND = 5, 2.0
"""Rounds that are measured, and how many times as long as one grouping a sweep may take."""
_WRITE = f"""INSERT INTO {name_table(KEY)}
  SELECT 's' || lpad((i // 2000)::VARCHAR, 6, '0') AS session, i % 2000 AS seq,
    'c' || (i % 2000)::VARCHAR || '.1' AS call,
    ({list(GATES)})[i % {len(GATES)} + 1] AS gate,
    CASE WHEN hash(i) % 10 < 8 THEN 'held' WHEN hash(i) % 10 = 8 THEN 'asked' ELSE 'person' END AS what,
    (hash(i + 1) % {PLACES})::BIGINT * 10 AS "at", CASE WHEN hash(i + 2) % 2 = 0 THEN 1 ELSE -1 END AS "by"
  FROM range({DECISIONS}) AS decisions(i)"""
_GROUP = f'SELECT gate, "at", count(*) FROM {name_table(KEY)} GROUP BY gate, "at"'


def write_cube(cube: Cube) -> None:
    """Write the tables of a key."""
    values = default_policy().recorded
    policy = strict_json.digest(values)
    rows = [("s", policy, gate, what, DECISIONS // 9) for gate in GATES for what in ("held", "asked", "person")]
    rows += [("s", policy, "", "turns", DECISIONS), ("s", policy, "", "calls", DECISIONS)]
    cube.connection.executemany("INSERT INTO recorded VALUES (?, ?, ?, ?, ?)", rows)
    cube.connection.execute("INSERT INTO policies VALUES (?, ?)", [policy, strict_json.canonical(values).decode()])
    cube.create_table(KEY)
    cube.connection.execute(_WRITE)
    cube.connection.execute("CHECKPOINT")


def measure(act: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def main() -> int:
    """Print the median ratio of interleaved rounds; return 1 where it is above the bound."""
    with tempfile.TemporaryDirectory() as name:
        log = SqliteLog(Path(name) / "events.db")
        folder = Path(name) / "cube"
        folder.mkdir()
        cube = Cube(log, folder, lambda sessions: nullcontext())
        write_cube(cube)
        found = cube.bring_up(KEY, []).sweep(log, Reviews())
        assert (found.turns, len(found.points), len(found.points[0].gates)) == (DECISIONS, PLACES, len(GATES))
        sweep = lambda: cube.bring_up(KEY, []).sweep(log, Reviews())  # noqa: E731
        group = lambda: cube.connection.execute(_GROUP).fetchall()  # noqa: E731
        group()
        rounds = [(measure(sweep) * 1000, measure(group) * 1000) for _ in range(ROUNDS)]
        log.close()
    report = Report("cube", "src/foregate/tuning")
    report.add_rounds("a sweep over one grouping", rounds, "ms", most=BOUND, note=f"of {DECISIONS:,} decisions")
    return report.end()


if __name__ == "__main__":
    sys.exit(main())

"""What several processes gain when recorded turns are judged again under another policy, as a ratio in one run.

The log is one session, so that the gain comes from the pieces it is cut into. Starting the processes counts.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from endless import SESSION, opened, policy, turns
from figures import Report

from foregate.policy.source.layers import Layer
from foregate.policy.source.load import default_policy
from foregate.policy.source.values import compare_policies
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.tuning.pieces import cores
from foregate.tuning.what_if import WhatIf

COUNT = 12_000
ROUNDS = 3


async def written(path: Path) -> None:
    """Write the log: a session of COUNT turns."""
    log = SqliteLog(path)
    session = await opened(log)
    await turns(session, COUNT)
    await session.close()
    log.close()


def judged_again(log: SqliteLog, workers: int, sessions: Sequence[str] = (SESSION,)) -> float:
    """Judge sessions again under their own policy, as a user's file; return the turns per second."""
    values: dict[str, object] = {}
    for path, (_, value) in compare_policies(default_policy(), policy()).items():
        section, key = map(str, path)
        values[section] = {**values.get(section, {}), key: value}  # type: ignore[dict-item]
    start = time.perf_counter()
    judge = WhatIf(log, Layer("bench.yaml", "bench.yaml", values, {}), workers)
    assert list(judge.find_changes(list(sessions))) == []
    assert judge.tally.turns >= min(COUNT, 1000 * len(sessions))
    return judge.tally.turns / (time.perf_counter() - start)


def main() -> int:
    """Print the median ratio of interleaved rounds, each over the whole session."""
    several = cores()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(written(Path(folder) / "log.db"))
        log = SqliteLog(Path(folder) / "log.db", create=False)
        rounds = [(judged_again(log, 1), judged_again(log, several)) for _ in range(ROUNDS)]
        log.close()
    one, many = (statistics.median(speeds) for speeds in zip(*rounds, strict=True))
    report = Report(
        "whatif",
        "src/foregate/tuning",
        "gates",
        "policy",
        "evidence",
        "schemas",
        "telemetry/queries",
    )
    note = f"{several} processes: {many:.0f} against {one:.0f} turns per second"
    report.add("gain of several processes", statistics.median(two / one for one, two in rounds), "x", note=note)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())

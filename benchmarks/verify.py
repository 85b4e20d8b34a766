"""What it costs to verify a log, against the bare SHA-256 over its bytes, as a ratio in one run.

Verifying also reads every event, checks that each continues the chain, and that nothing ran without leave.
"""

from __future__ import annotations

import asyncio
import hashlib
import statistics
import time
from collections.abc import Sequence

from endless import SESSION, opened, turns

from foregate.telemetry.audit.verify import verify_rows
from foregate.telemetry.log.memory_log import MemoryLog

Row = tuple[int, str, str]


async def main() -> None:
    """Print the median ratio of eleven interleaved rounds over a log of some thousand events."""
    log = MemoryLog()
    session = await opened(log)
    await turns(session, 1000)
    rows = list(log.lines(SESSION))
    rounds = []
    for _ in range(11):
        plain, ours = hashed(rows), verified(rows)
        rounds.append((ours / plain, ours / 1e6, plain / 1e6))
    ratio, ours, plain = statistics.median(rounds)
    print(f"verify    {ratio:5.1f}x   (bound 15x)    {ours:.1f} ms against {plain:.1f} ms for {len(rows)} events")


def hashed(rows: Sequence[Row]) -> int:
    """Hash the bytes of every event; return the nanoseconds."""
    lines = [text.encode() for _, text, _ in rows]
    start = time.perf_counter_ns()
    for line in lines:
        hashlib.sha256(line).hexdigest()
    return time.perf_counter_ns() - start


def verified(rows: Sequence[Row]) -> int:
    """Verify every event; return the nanoseconds."""
    start = time.perf_counter_ns()
    result = verify_rows(rows, SESSION)
    taken = time.perf_counter_ns() - start
    assert result.ok, result.sentence
    return taken


if __name__ == "__main__":
    asyncio.run(main())

"""How long the command line takes to answer, against starting Python for nothing, as a ratio in one run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

PLAIN = [sys.executable, "-c", "pass"]
OURS = [str(Path(sys.executable).with_name("foregate")), "--help"]


def main() -> None:
    """Print the median ratio of eleven interleaved rounds, after one of each to warm the file cache."""
    taken(PLAIN)
    taken(OURS)
    rounds = []
    for _ in range(11):
        plain, ours = taken(PLAIN), taken(OURS)
        rounds.append((ours / plain, ours / 1e6, plain / 1e6))
    ratio, ours, plain = statistics.median(rounds)
    print(f"start     {ratio:5.1f}x   (bound 10x)    {ours:.0f} ms against {plain:.0f} ms")


def taken(command: list[str]) -> int:
    """Run a command to its end; return the nanoseconds."""
    start = time.perf_counter_ns()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter_ns() - start


if __name__ == "__main__":
    main()

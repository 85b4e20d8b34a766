"""How long the command line takes to answer, against starting Python for nothing, as a ratio in one run."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from figures import Report

PLAIN = [sys.executable, "-c", "pass"]
OURS = [str(Path(sys.executable).with_name("foregate")), "--help"]


def main() -> int:
    """Print the median ratio of eleven interleaved rounds, after one of each to warm the file cache."""
    taken(PLAIN)
    taken(OURS)
    report = Report("start", "src/foregate/cli", "src/foregate/__main__.py")
    report.add_rounds("--help", [(taken(OURS) / 1e6, taken(PLAIN) / 1e6) for _ in range(11)], "ms", most=10)
    return report.end()


def taken(command: list[str]) -> int:
    """Run a command to its end; return the nanoseconds."""
    start = time.perf_counter_ns()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter_ns() - start


if __name__ == "__main__":
    sys.exit(main())

"""The processor time that commands take to start and answer, against starting Python for nothing, as ratios in one run.

`run` answers one request with one call in a new session each time. The log of `audit list` holds these sessions.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import Report

PLAIN = [sys.executable, "-c", "pass"]
OURS = Path(sys.executable).with_name("foregate")
MOST = {"--help": 10, "policy --help": 10, "audit list": 27, "run": 55, "doctor": 80}
"""By command the bound: 0.13, 0.3 and 0.6 s where Python takes 11 ms."""
WORDS = {"run": ["run", "--model", "rehearsal", "read a.txt"]}
ROUNDS = 11


def main() -> int:
    """Print the median ratio of interleaved rounds of each command, after one of each to warm the file cache."""
    report = Report("start", "src/foregate/cli", "src/foregate/__main__.py", "policy", "src/foregate/assembly")
    with tempfile.TemporaryDirectory() as folder:
        (workspace := Path(folder, "workspace")).mkdir()
        (workspace / "a.txt").write_text("hello\n")
        environ = {**os.environ, "HOME": folder, "FOREGATE_HOME": str(Path(folder, "home"))}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed Foregate is compiled

        def spend(command: list[str]) -> float:
            """Run a command to its end; return the milliseconds of processor time."""
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, cwd=workspace, env=environ, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

        for name, most in sorted(MOST.items(), key=lambda one: one[0] != "run"):
            command = [str(OURS), *WORDS.get(name, name.split())]
            for one in (PLAIN, command):
                spend(one)
            report.add_rounds(name, [(spend(command), spend(PLAIN)) for _ in range(ROUNDS)], "ms", most=most)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())

"""Whether the tests of gates, policy and loop find small faults: each of a table is put into a copy of the tree.

A fault that no test finds is a survivor. The copies are run on all cores, a fault at a time in each.

    python benchmarks/faults.py                        all of `torturing/faults.yaml` (part of `make torture`)
    python benchmarks/faults.py gates/support/plan_scope.py    those of some files
    python benchmarks/faults.py --first                only by the tests that the table names for a file
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from figures import ROOT, Report, ask_git

from foregate.policy.source.strict_yaml import parse_yaml

TABLE = ROOT / "benchmarks/torturing/faults.yaml"
FOLDERS = ("tests/gates", "tests/policy", "tests/agent/loop")
SECONDS = 1800
"""After which tests that do not end have found the fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One change of a file, and what is true of the program with it; `tests` are run before all others."""

    file: str
    old: str
    new: str
    means: str
    tests: Sequence[str]

    def apply(self, text: str) -> str:
        """Return the text of the file with the fault. Raises ValueError where it does not hold the old text once."""
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"`{self.old}` stands {count} times in {self.file}: write the entry anew")
        return text.replace(self.old, self.new)


def read_faults() -> list[Fault]:
    """Return the table."""
    data: Mapping[str, Any] = parse_yaml(TABLE.read_text("utf-8"), TABLE.name)[0]
    return [
        Fault(file, **fault, tests=tuple(entry["tests"])) for file, entry in data.items() for fault in entry["faults"]
    ]


def copy_tree(folder: Path) -> None:
    """Copy all files that git knows or would, links as links, and compile them."""
    for name in ask_git("ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (source := ROOT / name).is_symlink() or source.exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name, follow_symlinks=False)


def run_tests(tree: Path, tests: Sequence[str]) -> str:
    """Return the first test that fails in a copy, "" where none does."""
    command = [sys.executable, "-s", "-P", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    try:
        ran = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "they do not end"
    if ran.returncode == 0:
        return ""
    failed = [line.partition(" - ")[0] for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else (ran.stdout + ran.stderr)[-200:]


def find(fault: Fault, tree: Path, *, first: bool) -> str:
    """Return the test that finds a fault in a copy, "" for none; the copy is as before afterwards."""
    path = tree / fault.file
    text = path.read_text("utf-8")
    try:
        path.write_text(fault.apply(text), "utf-8")
        # a file that is compiled is known by size and second, which a fault may leave as they are
        Path(cache_from_source(str(path))).unlink(missing_ok=True)
        return run_tests(tree, fault.tests) or ("" if first else run_tests(tree, FOLDERS))
    finally:
        path.write_text(text, "utf-8")
        Path(cache_from_source(str(path))).unlink(missing_ok=True)


def main() -> int:
    """Play the faults; print the survivors and return 1 where there are any."""
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    reader.add_argument("files", nargs="*", metavar="FILE", help="only faults of these files")
    reader.add_argument("--first", action="store_true", help="run only the tests named in the table")
    reader.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = reader.parse_args()
    faults = [fault for fault in read_faults() if not given.files or fault.file in given.files]
    trees: queue.SimpleQueue[Path] = queue.SimpleQueue()

    def play(fault: Fault) -> str:
        tree = trees.get()
        try:
            found = find(fault, tree, first=given.first)
        finally:
            trees.put(tree)
        print(f"{fault.file}: {fault.means}: {found or 'SURVIVES'}", flush=True)
        return found

    with tempfile.TemporaryDirectory(prefix="foregate-faults-") as folder, ThreadPoolExecutor(given.workers) as pool:
        for number in range(given.workers):
            copy_tree(Path(folder, str(number)))
            trees.put(Path(folder, str(number)))
        tests = sorted({test for fault in faults for test in fault.tests}) if given.first else FOLDERS
        if failed := run_tests(Path(folder, "0"), tests):
            print(f"the tests fail without a fault: {failed}")
            return 1
        found = list(pool.map(play, faults))
    report = Report("faults", "gates", "policy/risk", "agent/loop", *FOLDERS, "benchmarks/torturing/faults.yaml")
    report.add("faults", len(faults), "", least=None if given.files else 60)
    report.add("survivors", found.count(""), "", most=0)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())

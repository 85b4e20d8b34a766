"""What a benchmark measured: every figure is printed against its bound, and written where docs and a later run find it.

    report = Report("start", "src/foregate/cli")
    report.add("help", 5.5, "x", most=10, note="53 ms against 9.7 ms")
    sys.exit(report.end())

Results are written only where the environment says so, as `run.py` does: a run of one's own changes no results.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TREE = Path(os.environ.get("BENCHMARK_TREE", ROOT))
"""The checkout whose code is measured: this one, or an older one by the benchmarks of this one."""
RESULTS = Path("benchmarks/results")
"""The folder of the results, from ROOT: a file for each benchmark, and those of the long forms in `long`."""
FOLDER = "BENCHMARK_RESULTS"
"""The variable of the environment that names the folder to write into."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure, and what it may be `most` or must be `least`; `skipped` says why it could not be measured."""

    name: str
    value: float = 0.0
    unit: str = ""
    most: float | None = None
    least: float | None = None
    note: str = ""
    skipped: str = ""

    @property
    def holds(self) -> bool:
        """Whether the bound holds; what has none or could not be measured misses none."""
        return bool(self.skipped) or (
            (self.most is None or self.value <= self.most) and (self.least is None or self.value >= self.least)
        )

    @property
    def shown(self) -> str:
        """The value with its unit, such as `5.5x` or `1,200 ms`."""
        return "skipped" if self.skipped else show_value(self.value, self.unit)

    @property
    def bound(self) -> str:
        """The bound in words, such as `at most 10x`, or "" for none."""
        found = [
            (word, bound) for word, bound in (("at most", self.most), ("at least", self.least)) if bound is not None
        ]
        return ", ".join(f"{word} {show_value(bound, self.unit)}" for word, bound in found)


@dataclass(frozen=True, slots=True)
class Results:
    """The figures of one run of a benchmark, and the paths from ROOT that it measures."""

    benchmark: str
    commit: str
    changed: bool
    """Whether a path that it measures held changes that were in no commit."""
    date: str
    machine: dict[str, Any]
    measures: Sequence[str]
    processor_seconds: float
    figures: Sequence[Figure]

    @classmethod
    def read(cls, text: str) -> Results:
        """Read a file of results."""
        data = json.loads(text)
        return cls(**{**data, "figures": [Figure(**figure) for figure in data["figures"]]})

    def write(self) -> str:
        """Return the text of a file of results; what a figure does not have is left out."""
        data = asdict(self)
        data["figures"] = [
            {name: value for name, value in figure.items() if name == "value" or value not in (None, "")}
            for figure in data["figures"]
        ]
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


class Report:
    """Collects the figures of a benchmark, which measures these paths (files or folders, from ROOT)."""

    def __init__(self, name: str, *measures: str) -> None:
        self.name, self.figures = name, list[Figure]()
        self.measures = (f"benchmarks/{name}.py", *measures)
        self.load = round(os.getloadavg()[0], 1)
        """The processes that wanted to run when the benchmark began."""

    def add(
        self,
        name: str,
        value: float,
        unit: str,
        *,
        most: float | None = None,
        least: float | None = None,
        note: str = "",
    ) -> bool:
        """Print a figure and keep it; return whether its bound holds."""
        figure = Figure(name, float(f"{value:.4g}"), unit, most, least, note)
        self.figures.append(figure)
        verdict = "" if not figure.bound else "holds" if figure.holds else "MISSED"
        bound = f"({figure.bound})" if figure.bound else ""
        print(f"{self.name:9} {name:36} {figure.shown:>10}  {bound:21} {verdict:6}  {note}".rstrip(), flush=True)
        return figure.holds

    def add_rounds(
        self, name: str, rounds: Iterable[tuple[float, float]], unit: str, *, most: float | None = None, note: str = ""
    ) -> bool:
        """Keep the median ratio of interleaved rounds (ours, plain), whose times are in `unit`."""
        ratio, ours, plain = statistics.median_high((ours / plain, ours, plain) for ours, plain in rounds)
        told = f"{show_value(ours, unit)} against {show_value(plain, unit)}"
        return self.add(name, ratio, "x", most=most, note=f"{told} {note}".rstrip())

    def skip(self, name: str, why: str) -> None:
        """Say that a figure cannot be measured here, and why."""
        self.figures.append(Figure(name, skipped=why))
        print(f"{self.name:9} {name:36}    skipped: {why}", flush=True)

    def end(self) -> int:
        """Write the results where that is wanted; return the exit code, 1 where a bound is missed."""
        if folder := os.environ.get(FOLDER):
            spent = float(f"{sum(os.times()[:4]):.3g}")
            now = datetime.now(UTC).date().isoformat()
            code = [path for path in self.measures if TREE == ROOT or not path.startswith("benchmarks")]
            changed = bool(ask_git("status", "--porcelain", "--", *code))
            commit = ask_git("rev-parse", "HEAD")
            machine = {**describe_machine(), "load": self.load}
            found = Results(self.name, commit, changed, now, machine, self.measures, spent, self.figures)
            Path(folder, f"{self.name}.json").write_text(found.write(), "utf-8")
        return 1 - all(figure.holds for figure in self.figures)


def show_value(value: float, unit: str) -> str:
    """Return a number of three digits or more with its unit: `5.48x`, `85 %`, `1,234 ms`, `12`."""
    digits = 0 if value == int(value) or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}{unit if unit == 'x' else f' {unit}' if unit else ''}"


def ask_git(*words: str) -> str:
    """Return what git says in the checkout that is measured without the last line end, "" where it fails."""
    command = ["git", "-C", str(TREE), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.rstrip()


@cache
def describe_machine() -> dict[str, Any]:
    """Return cores, processor, Python and kernel of this machine."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "processor": next(iter(models), platform.processor() or platform.machine()),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }

"""Run the benchmarks one after the other, write their results, and print one table beside those of the version before.

A bound that is missed stops none of the others; the exit code is 1 at the end.

    python benchmarks/run.py                     all, in their short forms (`make bench`)
    python benchmarks/run.py start replay        only these
    python benchmarks/run.py --before v0.2.0     beside the results that were committed then
    python benchmarks/run.py --stale             only say which results are older than the code they measure
    python benchmarks/run.py --long              the long forms (part of `make torture`)
    python benchmarks/run.py --tree ../older     the code of another checkout, by the benchmarks of this one
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from figures import FOLDER, RESULTS, ROOT, Results, ask_git

SHORT: dict[str, Sequence[str]] = {
    "start": (),
    "overhead": (),
    "beside": (),
    "replay": (),
    "whatif": (),
    "tuning": ("--turns", "6000"),
    "verify": (),
    "resume": (),
    "planning": (),
    "parsing": (),
    "early": (),
    "friction": (),
    "guard": (),
    "policies": (),
    "sandbox": (),
    "commands": ("--every", "40"),
    "projects": (),
    "sharing": (),
    "audit": (),
    "promises": (),
    "cube": (),
    "dial": (),
    "endpoints": (),
}
"""The benchmarks with the arguments of their short forms."""
LONG: dict[str, Sequence[str]] = {
    "tuning": (),
    "verify": ("--sessions", "250"),
    "guard": ("--long",),
    "commands": (),
    "faults": (),
}
"""Those that have a long form, with its arguments."""


def main() -> int:
    """Run what is asked for; return 1 where a bound is missed or a benchmark fails."""
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    reader.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SHORT))
    reader.add_argument("--before", default="HEAD", metavar="REVISION", help="whose results stand beside the new ones")
    reader.add_argument("--long", action="store_true", help="run the long forms")
    reader.add_argument("--stale", action="store_true", help="run nothing: say which results are older than the code")
    reader.add_argument("--tree", type=Path, default=ROOT, help="the checkout whose code is measured")
    reader.add_argument("--servers", metavar="PYTHON", help="that in which LiteLLM and llama.cpp are installed")
    given = reader.parse_args()
    if given.servers and Path(given.servers).exists():
        os.environ.setdefault("BENCHMARK_SERVERS", str(Path(given.servers).absolute()))
    for line in list_stale():
        print(f"measure again: {line}", flush=True)
    if given.stale:
        return 0
    forms, folder = (LONG, RESULTS / "long") if given.long else (SHORT, RESULTS)
    if unknown := set(given.names) - {*forms}:
        reader.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    before = {name: read_before(given.before, folder / f"{name}.json") for name in forms}
    start, failed = time.monotonic(), list[str]()
    rows: list[Sequence[str]] = []
    for name in given.names or forms:
        begun = time.monotonic()
        found, good = run(name, forms[name], ROOT / folder, given.tree.resolve())
        print(f"{name:9} took {time.monotonic() - begun:.0f} s", flush=True)
        failed += [] if good else [name]
        rows += compare(name, before[name], found, good)
    print_table(rows, given.before)
    print(f"\n{(time.monotonic() - start) / 60:.1f} minutes; failed: {', '.join(failed) or 'none'}")
    return min(1, len(failed))


def run(name: str, arguments: Sequence[str], folder: Path, tree: Path = ROOT) -> tuple[Results | None, bool]:
    """Run one benchmark and keep its results; return them, None where it broke off, and whether its bounds hold."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-s", str(ROOT / "benchmarks" / f"{name}.py"), *arguments]
    where = {"PYTHONPATH": str(tree / "src"), "BENCHMARK_TREE": str(tree)}
    with tempfile.TemporaryDirectory() as made:
        ran = subprocess.run(command, env={**os.environ, **where, FOLDER: made}, check=False)
        path = Path(made, f"{name}.json")
        if not path.exists():
            return None, False
        shutil.copy(path, folder)
        return Results.read(path.read_text("utf-8")), ran.returncode == 0


def read_before(revision: str, path: Path) -> Results | None:
    """Return the results that a revision holds, None where it has none of this benchmark."""
    text = ask_git("show", f"{revision}:{path}")
    return Results.read(text) if text else None


def compare(name: str, before: Results | None, now: Results | None, good: bool) -> Iterator[Sequence[str]]:
    """Yield the rows of one benchmark: figure, bound, now, before, verdict."""
    then = {figure.name: figure.shown for figure in before.figures} if before else {}
    for figure in now.figures if now else ():
        verdict = "MISSED" if not figure.holds else "holds" if figure.bound else ""
        yield name, figure.name, figure.bound, figure.shown, then.get(figure.name, ""), verdict
    if not good and (now is None or all(figure.holds for figure in now.figures)):
        yield name, "", "", "", "", "FAILED"


def print_table(rows: Sequence[Sequence[str]], revision: str) -> None:
    """Print the rows, the columns as wide as their widest cell."""
    table = [("benchmark", "figure", "bound", "now", f"at {revision[:12]}", ""), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    print()
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        cells[3:5] = [cell.strip().rjust(width) for cell, width in zip(cells[3:5], widths[3:5], strict=True)]
        print("  ".join(cells).rstrip())


def list_stale() -> Iterator[str]:
    """Yield each file of results that is older than the code it measures, or was measured on a busy machine."""
    for path in sorted((ROOT / RESULTS).rglob("*.json")):
        found = Results.read(path.read_text("utf-8"))
        name = path.relative_to(ROOT / RESULTS).with_suffix("")
        count = ask_git("rev-list", "--count", f"{find_base(found, path)}..HEAD", "--", *found.measures)
        if ask_git("status", "--porcelain", "--", *found.measures):
            yield f"{name} (there are changes that are in no commit)"
        elif found.changed:
            yield f"{name} (measured with changes that were in no commit)"
        elif count not in ("", "0"):
            yield f"{name} ({count} commits have changed that code since)"
        elif found.machine.get("load", 0) > 2 * found.machine["cores"]:
            yield f"{name} (measured while {found.machine['load']:.0f} processes wanted to run: its times are too long)"


def find_base(found: Results, path: Path) -> str:
    """Return the commit that was measured, or where history was rewritten the one that holds the results."""
    if found.commit and ask_git("merge-base", found.commit, "HEAD") == found.commit:
        return found.commit
    return ask_git("log", "-1", "--format=%H", "--", str(path)) or "HEAD"


if __name__ == "__main__":
    sys.exit(main())

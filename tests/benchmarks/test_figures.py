"""What benchmarks report: bounds that fail, results that are written, a table beside the version before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def beside() -> Iterator[None]:
    """Make the benchmarks' own modules importable, as they are beside the scripts."""
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture
def figures() -> Any:
    return import_module("figures")


@pytest.fixture
def run() -> Any:
    return import_module("run")


def test_a_report_fails_by_a_missed_bound_and_by_nothing_else(figures: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(figures.FOLDER, raising=False)
    report = figures.Report("start")
    report.add("at its bound", 2, "x", most=2)
    report.add("above its least", 0.9, "x", least=0.8)
    report.add("without a bound", 10**6, "ms")
    report.skip("of another machine", "there is no browser")
    assert report.end() == 0
    report.add("below its least", 0.7, "x", least=0.8)
    assert report.end() == 1


def test_results_read_back_as_they_were_written_and_name_commit_and_machine(
    figures: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(figures.FOLDER, str(tmp_path))
    report = figures.Report("start", "gates")
    report.add("help", 5.48123, "x", most=10, note="53 ms against 9.7 ms")
    report.skip("a move", "no browser")
    assert report.end() == 0
    text = (tmp_path / "start.json").read_text("utf-8")
    found = figures.Results.read(text)
    assert found.write() == text
    assert (len(found.commit), list(found.measures)) == (40, ["benchmarks/start.py", "gates"])
    assert found.machine["cores"] >= 1
    assert [(one.shown, one.bound, one.holds) for one in found.figures] == [
        ("5.48x", "at most 10x", True),
        ("skipped", "", True),
    ]


def test_the_table_has_each_figure_beside_that_of_before_and_marks_what_missed_or_broke_off(
    figures: Any, run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def results(*found: Any) -> Any:
        return figures.Results("start", "", False, "", {}, (), 1.0, found)

    before = results(figures.Figure("help", 9.0, "x", most=10), figures.Figure("gone", 1.0, "s"))
    now = results(figures.Figure("help", 11.0, "x", most=10), figures.Figure("new", 3.0, "s"))
    rows = [*run.compare("start", before, now, False), *run.compare("dial", None, None, False)]
    assert rows == [
        ("start", "help", "at most 10x", "11x", "9x", "MISSED"),
        ("start", "new", "", "3 s", "", ""),
        ("dial", "", "", "", "", "FAILED"),
    ]
    run.print_table(rows, "v1")
    assert capsys.readouterr().out.splitlines()[2] == "start      help    at most 10x  11x     9x  MISSED"


def test_a_benchmark_that_breaks_off_stops_no_other_and_keeps_the_results_there_were(
    figures: Any, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module, name in ((figures, "ROOT"), (figures, "TREE"), (run, "ROOT")):
        monkeypatch.setattr(module, name, tmp_path)
    monkeypatch.setattr(run, "SHORT", {"broken": (), "whole": ("4",)})
    monkeypatch.setattr(sys, "argv", ["run.py"])
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "benchmarks/results").mkdir(parents=True)
    (tmp_path / "benchmarks/broken.py").write_text("raise SystemExit(3)")
    kept = figures.Results("broken", "", True, "", {}, (), 1.0, ()).write()
    (tmp_path / "benchmarks/results/broken.json").write_text(kept)
    (tmp_path / "benchmarks/whole.py").write_text(
        f"import json, os, sys\nsys.path.insert(0, {str(BENCHMARKS)!r})\nfrom figures import *\n"
        "made = Results('whole', '', False, '', {}, (), 1.0, [Figure('it', float(sys.argv[1]), 's', most=5)])\n"
        "Path(os.environ[FOLDER], 'whole.json').write_text(made.write())\n"
    )
    assert run.main() == 1
    out = capsys.readouterr().out
    assert "failed: broken" in out
    assert "broken" in out.split("benchmark  ")[1]
    assert "4 s" in out
    assert (tmp_path / "benchmarks/results/broken.json").read_text() == kept


def test_results_are_older_than_their_code_when_a_commit_changed_it_since_and_not_when_one_changed_other_code(
    figures: Any, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((figures, "ROOT"), (figures, "TREE"), (run, "ROOT")):
        monkeypatch.setattr(module, name, tmp_path)

    def commit(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        figures.ask_git("add", ".")
        figures.ask_git("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "It changed")
        return str(figures.ask_git("rev-parse", "HEAD"))

    def measure(at: str, changed: bool = False, load: float = 1.0) -> str:
        machine = {"cores": 2, "load": load}
        return str(figures.Results("start", at, changed, "", machine, ("code",), 1.0, ()).write())

    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    at, result = commit("code/a.py", "1"), "benchmarks/results/start.json"
    commit(result, measure(at))
    commit("other.py", "1")
    assert [*run.list_stale()] == []
    commit("code/a.py", "2")
    assert [*run.list_stale()] == ["start (1 commits have changed that code since)"]
    commit(result, measure("0" * 40))  # a commit that a rebase has left behind: the results' own counts
    assert [*run.list_stale()] == []
    commit(result, measure(at, changed=True))
    assert [*run.list_stale()] == ["start (measured with changes that were in no commit)"]
    commit(result, measure("0" * 40, load=9.0))
    assert [*run.list_stale()] == [
        "start (measured while 9 processes wanted to run: its times are too long)",
    ]
    (tmp_path / "code/a.py").write_text("3")
    assert [*run.list_stale()] == ["start (there are changes that are in no commit)"]


def test_every_benchmark_of_the_runner_is_there_and_results_name_paths_that_exist(figures: Any, run: Any) -> None:
    assert [name for name in {*run.SHORT, *run.LONG} if not (BENCHMARKS / f"{name}.py").is_file()] == []
    for path in (ROOT / figures.RESULTS).rglob("*.json"):
        found = figures.Results.read(path.read_text("utf-8"))
        assert [name for name in found.measures if not (ROOT / name).exists()] == [], path.name

"""The benchmark of real projects: what it compares, and one project in every run."""

from __future__ import annotations

import os
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.forever import FOREVER

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def beside() -> Iterator[None]:
    """Make the benchmarks' own modules importable, as they are beside the scripts."""
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture
def projects() -> Any:
    return import_module("projects")


def test_a_project_is_built_in_a_session_as_it_is_without_one(
    projects: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"])  # which the benchmark changes
    c = projects.PROJECTS["c"]
    monkeypatch.setitem(projects.PROJECTS, "c", replace(c, steps=[step for step in c.steps if step.name == "build"]))
    assert projects.main(["c"]) == 0, capsys.readouterr().out


def test_a_step_differs_by_exit_code_output_or_files_and_not_by_times(projects: Any) -> None:
    step = projects.Step("build", "make")
    bare = projects.Outcome(0, "built in 1.5 s\n", {"app": ("file", 1)}, 1.0)
    assert projects.compare(step, bare, projects.Outcome(0, "built in 0.2 s", {"app": ("file", 1)}, 2.0)) == []
    for ours in (
        projects.Outcome(1, bare.output, bare.files, 1.0),
        projects.Outcome(0, "failed", bare.files, 1.0),
        projects.Outcome(0, bare.output, {"app": ("file", 2)}, 1.0),
        projects.Outcome(0, bare.output, bare.files, 1.0, refused="approval_denied"),
    ):
        assert len(projects.compare(step, bare, ours)) == 1
    assert "outside" in projects.compare(step, projects.Outcome(2, "", {}, 1.0), bare)[0]


def test_the_registry_serves_this_machine_a_package_for_every_language() -> None:
    with import_module("building.registry").serve_registry() as port:
        for path in ("simple/benchdep/", "benchdep", "go/example.org/benchdep/@v/list", "index/be/nc/benchdep"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=FOREVER) as answer:
                assert answer.read()

"""The table of small faults: each entry fits the file it names, and the tests it names are there."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from foregate.schemas.codes import GATES

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def beside() -> Iterator[None]:
    """Make the benchmarks' own modules importable, as they are beside the scripts."""
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture
def faults() -> Any:
    return import_module("faults")


def test_each_fault_changes_the_one_place_it_names_and_leaves_a_program(faults: Any) -> None:
    for fault in faults.read_faults():
        text = (ROOT / fault.file).read_text("utf-8")
        changed = fault.apply(text)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text)), fault.means
        assert [test for test in fault.tests if not (ROOT / test).is_file()] == []


def test_there_are_sixty_faults_and_every_gate_the_prelude_the_risk_and_the_loop_have_some(faults: Any) -> None:
    table = faults.read_faults()
    assert len(table) >= 60
    assert len({(fault.file, fault.old, fault.new) for fault in table}) == len(table)
    files = {fault.file for fault in table}
    assert {f"gates/{gate}.py" for gate in (*GATES, "prelude")} <= files
    assert {"policy/risk/facts.py", "agent/loop/runner.py", "agent/loop/dispatch.py"} <= files


def test_a_fault_whose_text_is_gone_or_stands_twice_is_an_error_of_the_table(faults: Any) -> None:
    fault = faults.Fault("gates/x.py", "a < b", "a > b", "it is turned round", ())
    assert fault.apply("if a < b:") == "if a > b:"
    for text in ("if a <= b:", "if a < b and a < b:"):
        with pytest.raises(ValueError, match="write the entry anew"):
            fault.apply(text)

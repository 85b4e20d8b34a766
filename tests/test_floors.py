"""The floors: who may import whom."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = {"schemas": 1, "evidence": 2, "policy": 2, "gates": 3, "telemetry": 3, "agent": 4}
FILES = sorted(path for package in FLOORS for path in (ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Yield the absolute names a module imports, wherever in the module."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module or ""


def offence(package: str, name: str) -> str:
    """Return why `package` may not import `name`, "" when it may."""
    parts = name.split(".")
    if parts[0] in FLOORS:
        return f"`{name}` is a bare name"
    if parts[0] != "foregate" or len(parts) == 1:
        return ""
    other = parts[1]
    if other == package:
        return ""
    if other not in FLOORS:
        return f"`{name}` is the face"
    return "" if FLOORS[other] < FLOORS[package] else f"`{other}` is not a lower floor"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_lower_floors_and_its_own_package(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert not [why for name in imported(path) if (why := offence(package, name))]


def test_the_floor_test_would_notice_each_kind_of_offence() -> None:
    assert offence("schemas", "foregate.policy.policy")
    assert offence("policy", "foregate.evidence.ledger")
    assert offence("gates", "foregate.telemetry.chain")
    assert offence("agent", "policy.load")
    assert offence("agent", "foregate.cli.app")
    assert not offence("gates", "foregate.policy.facts")


def test_no_module_is_loaded_under_a_bare_name() -> None:
    import foregate.agent.loop
    import foregate.gates.prelude  # noqa: F401

    assert not FLOORS.keys() & sys.modules.keys()


def test_no_file_is_longer_than_four_hundred_lines() -> None:
    assert not [str(path) for path in FILES if path.read_text("utf-8").count("\n") > 400]

"""The names are public: they are said in one place, and the page about telemetry tells of each."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from foregate.telemetry.otel import names

ROOT = Path(__file__).resolve().parents[3]
NAMES = {
    key: value for key, value in vars(names).items() if key.isupper() and key not in ("VERSION", "SCHEMA_URL", "OTHER")
}


@pytest.mark.parametrize("name", sorted(set(NAMES.values())))
def test_every_name_is_on_the_page(name: str) -> None:
    assert f"`{name}" in (ROOT / "docs" / "reference" / "telemetry.md").read_text("utf-8")


def test_the_page_says_which_conventions_the_names_follow() -> None:
    page = (ROOT / "docs" / "reference" / "telemetry.md").read_text("utf-8")
    assert f"semantic conventions {names.VERSION}, " in page


@pytest.mark.parametrize("path", sorted((ROOT / "telemetry" / "otel").glob("*.py")), ids=lambda path: path.name)
def test_no_other_module_spells_a_name(path: Path) -> None:
    spelt = {node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)}
    found = {text for text in spelt if isinstance(text, str) and text.startswith(("gen_ai.", "foregate."))}
    assert path.name == "names.py" or not found & set(NAMES.values())

"""Documentation and examples use only what is public, and all that is public is documented."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import foregate
import foregate.testing
from tests.docs.pages import DOCS, PAGES, ROOT, code_of, text_of
from tests.floors import sources
from tests.forever import FOREVER

PUBLIC = {"foregate": foregate, "foregate.testing": foregate.testing}
SIGNATURES = DOCS / "reference" / "python.md"
"""The page whose blocks are signatures, not programs."""
PROGRAMS = [(path.name, path.read_text("utf-8")) for path in sorted((ROOT / "examples").glob("*.py"))] + [
    (f"{page.relative_to(ROOT)}-{number}", code)
    for page in PAGES
    if page != SIGNATURES
    for number, code in enumerate(code_of(page, "python"))
]
ABOUT_THE_SOURCE = ("architecture.md", "CONTRIBUTING.md", "CHANGELOG.md")
ATTRIBUTES = {"foregate.policy.hash", "foregate.gate"}
"""Names of telemetry that are spelt like modules."""
UNDOCUMENTED = ("Json", "__version__")
"""Names that are no class and no function, so that they have no docstring of their own."""


def private_names(code: str) -> Iterator[str]:
    """Yield what code uses of Foregate though it is not public."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "foregate"]
            yield from (name for name in names if name not in PUBLIC)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "foregate":
            module = PUBLIC.get(node.module or "")
            for alias in node.names:
                if module is None or alias.name not in module.__all__:
                    yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "foregate":
            yield from [] if node.attr in (*foregate.__all__, "testing") else [f"foregate.{node.attr}"]


@pytest.mark.parametrize(("name", "code"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
def test_a_program_of_the_examples_or_a_page_uses_only_public_names(name: str, code: str) -> None:
    assert list(private_names(code)) == []


def test_a_private_name_is_seen_however_it_is_reached() -> None:
    code = (
        "import foregate.agent\nfrom foregate.schemas.turn import Turn\nfrom foregate import judges\nforegate.api.run"
    )
    assert set(private_names(code)) == {
        "foregate.agent",
        "foregate.schemas.turn.Turn",
        "foregate.judges",
        "foregate.api",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_for_users_names_no_private_module(page: Path) -> None:
    if page.name not in ABOUT_THE_SOURCE:
        named = set(re.findall(r"\bforegate(?:\.\w+){2,}", text_of(page)))
        assert not {name for name in named if {name, name.rpartition(".")[0]} & sources().keys()} - ATTRIBUTES


@pytest.mark.parametrize("module", PUBLIC.values(), ids=PUBLIC)
def test_every_public_name_has_a_docstring_and_stands_in_the_reference(module: ModuleType) -> None:
    page = text_of(SIGNATURES)
    for name in module.__all__:
        assert name in UNDOCUMENTED or inspect.getdoc(getattr(module, name)), f"{name} has no docstring"
        assert name == "__version__" or f"### `{name}`" in page or f"[`{name}`](" in page, f"{name} is not listed"


def test_the_readme_s_program_runs_offline_as_it_stands(tmp_path: Path) -> None:
    (code,) = code_of(ROOT / "README.md", "python")
    assert len([line for line in code.splitlines() if line]) <= 10
    ran = run_program(code, tmp_path)
    (shown,) = (block for block in code_of(ROOT / "README.md", "") if "approval_required" in block)
    assert (ran.returncode, ran.stderr, ran.stdout.split()) == (0, "", shown.split())


def test_the_test_that_the_guide_shows_passes(tmp_path: Path) -> None:
    (code,) = code_of(DOCS / "how-to" / "test-an-agent.md", "python")
    call = "\n\nfrom pathlib import Path\n\ntest_a_message_is_sent_only_after_a_yes(Path('.').resolve())\n"
    ran = run_program(code + call, tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")


def run_program(code: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, with nothing of the environment but a home of its own."""
    (place / "program.py").write_text(code)
    environment = {"FOREGATE_HOME": str(place / "home"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-I", str(place / "program.py")]
    return subprocess.run(command, capture_output=True, text=True, cwd=place, env=environment, timeout=FOREVER)


def test_the_pictures_can_be_made_and_are_what_the_demonstration_shows_now() -> None:
    made = runpy.run_path(str(DOCS / "make_picture.py"))["draw_pictures"]()
    assert "held-call" in made
    for name, drawn in made.items():
        assert (DOCS / "images" / f"{name}.svg").read_text("utf-8") == drawn, "run docs/make_picture.py"

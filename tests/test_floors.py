"""The floors: who may import whom. There is no exemption, neither for types nor for imports inside functions."""

from __future__ import annotations

import ast
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.floors import FLOORS, MOUNTED, ROOT, arrows, floor_of, imports, names_in, package_of, sources

OURS = [*sources().values()] + [
    path
    for folder in ("docs", "benchmarks", "examples", "tests")
    for path in (ROOT / folder).rglob("*.py")
    if ROOT / "benchmarks/tasks" not in path.parents
]


def offence(module: str, name: str) -> str:
    """Return why `module` may not import `name`, "" when it may."""
    if name.split(".")[0] in MOUNTED:
        return f"`{name}` is a bare name"
    if name not in sources():
        return f"`{name}` is no module"
    package, other = package_of(module), package_of(name)
    if other == package:
        return ""
    return "" if floor_of(other) < floor_of(package) else f"`{module}` imports `{name}`, which is on no lower floor"


def test_a_module_imports_only_from_lower_floors_and_its_own_package() -> None:
    assert not [why for module in sources() for name in imports()[module] if (why := offence(module, name))]


def test_the_floors_name_every_package_once_and_no_other() -> None:
    named = [package for floor in FLOORS for package in floor]
    assert sorted(named) == sorted(arrows())


def test_no_files_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_a_package_says_in_one_sentence_what_it_is() -> None:
    for package in arrows():
        name = "foregate" if package == "foregate" else f"foregate.{package}"
        sentence = ast.get_docstring(ast.parse(sources()[name].read_text("utf-8")))
        assert sentence, f"{package} has no docstring"
        assert "\n\n" not in sentence, f"{package} says more than a sentence"
        assert sentence.endswith("."), f"{package} does not end its sentence"


def test_the_floor_test_would_notice_each_kind_of_offence() -> None:
    assert offence("foregate.schemas.event", "foregate.policy.policy")
    assert offence("foregate.policy.risk.facts", "foregate.evidence.state.task")
    assert offence("foregate.agent.session.session", "foregate.agent.loop.runner")
    assert offence("foregate.agent.tools.tool", "foregate.cli.app")
    assert offence("foregate.telemetry.log.chain", "foregate")
    assert offence("foregate.agent.loop.runner", "policy.source.load")
    assert not offence("foregate.gates.prelude", "foregate.policy.risk.facts")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import foregate.gates.prelude", "foregate.gates.prelude"),
        ("from foregate.gates import prelude", "foregate.gates.prelude"),
        ("from foregate.gates.prelude import judge", "foregate.gates.prelude"),
        ("from foregate import __version__", "foregate"),
        ("if TYPE_CHECKING:\n    from foregate.gates.prelude import judge", "foregate.gates.prelude"),
        ("def f():\n    from foregate.gates.prelude import judge", "foregate.gates.prelude"),
        ("import_module('foregate.gates.prelude')", "foregate.gates.prelude"),
        ("from gates import prelude", "gates"),
    ],
)
def test_every_way_to_import_a_module_is_seen(source: str, name: str) -> None:
    assert name in set(names_in(ast.parse(source)))


def test_no_module_is_loaded_under_a_bare_name() -> None:
    import foregate.agent.loop.runner
    import foregate.gates.prelude  # noqa: F401

    assert not set(MOUNTED) & sys.modules.keys()


def test_ruff_bans_every_bare_name() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    assert sorted(tools["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]) == sorted(MOUNTED)


def test_no_file_of_ours_is_longer_than_four_hundred_lines() -> None:
    assert not [str(path.relative_to(ROOT)) for path in OURS if path.read_text("utf-8").count("\n") > 400]

"""The floors of the house, and what its files import: read from the source, so that nothing has to be loaded."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOUNTED = ("agent", "evidence", "gates", "policy", "schemas", "telemetry")
FLOORS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        # From the lowest to the highest; names without `foregate.`, the face is `foregate` itself.
        "agent schemas views",
        "agent.models evidence policy telemetry",
        "agent.models.openai agent.sandbox evidence.state policy.risk telemetry.log",
        "agent.workspace gates.support policy.source",
        "agent.tools gates telemetry.queries",
        "agent.survey agent.tools.mcp gates.replay telemetry.export telemetry.otel",
        "agent.session",
        "agent.dialects agent.loop",
        "agent.planning agent.serving",
        "assembly",
        "tuning views.terminal",
        "cli.acp cli.chat views.pages",
        "console",
        "cli",
        "foregate",
    )
)


def floor_of(package: str) -> int:
    """Return the number of a package's floor, the lowest is 0; raise KeyError for a package that has none."""
    found = [number for number, floor in enumerate(FLOORS) if package in floor]
    if not found:
        raise KeyError(f"no floor names the package `{package}`")
    return found[0]


@cache
def sources() -> Mapping[str, Path]:
    """Return every file of the packages by its module's dotted name."""
    face = ROOT / "src/foregate"
    folders = [ROOT / name for name in MOUNTED] + [path for path in face.iterdir() if path.is_dir()]
    files = [path for folder in folders if not folder.is_symlink() for path in folder.rglob("*.py")]
    return {module_of(path): path for path in sorted([*files, *face.glob("*.py")])}


def module_of(path: Path) -> str:
    """Return the dotted name a file of the packages is imported by."""
    relative = path.relative_to(ROOT)
    parts = relative.with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else ("foregate", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str) -> str:
    """Return the package of a module as the floors name it; a package is its own."""
    package = module if sources()[module].name == "__init__.py" else module.rpartition(".")[0]
    return package.removeprefix("foregate.")


def names_in(tree: ast.AST) -> Iterator[str]:
    """Yield the module behind everything a file imports, wherever in it and for whatever reason.

    A text that is a dotted name of ours counts as well: it is how a module is loaded by its name.
    """
    known = sources()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "an import is relative; write the whole name"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from (name if name in known else str(node.module) for name in inner)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value and node.value in known
        ):
            yield node.value


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Return what of ours each module imports: modules, packages, and bare names that none should use."""
    graph = {}
    for module, path in sources().items():
        names = set(names_in(ast.parse(path.read_text("utf-8")))) - {module}
        graph[module] = frozenset(name for name in names if name.split(".")[0] in ("foregate", *MOUNTED))
    return graph


@cache
def arrows() -> Mapping[str, frozenset[str]]:
    """Return the packages that each package imports, without itself."""
    graph: dict[str, set[str]] = {package_of(module): set() for module in sources()}
    for module, found in imports().items():
        graph[package_of(module)] |= {package_of(name) for name in found if name in sources()}
    return {package: frozenset(found - {package}) for package, found in graph.items()}

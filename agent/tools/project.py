"""Tools that run a project's tests and its build, by the command that its files ask for."""

from __future__ import annotations

from collections.abc import Sequence

import re2

from foregate.agent.tools.commands import build_runner, resolve_folder, run_argv
from foregate.agent.tools.tool import Arguments, Tool
from foregate.agent.workspace.workspace import Workspace, check_judged_command
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, WorkspaceError
from foregate.schemas.strict_json import as_texts
from foregate.schemas.tool_call import ToolResult

Sign = tuple[str, str, Sequence[str]]
"""A file, what it must hold (a target of a Makefile, a script of package.json; "" = anything), and the command."""
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_PYTHON = ("pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg", "setup.py", "conftest.py")
_PYTEST = ("python3", "-m", "pytest")
_TESTS: Sequence[Sign] = (
    *((name, "test", ("make", "test")) for name in _MAKEFILES),
    ("package.json", "test", ("npm", "test")),
    ("Cargo.toml", "", ("cargo", "test")),
    ("go.mod", "", ("go", "test", "./...")),
    ("pom.xml", "", ("mvn", "--batch-mode", "test")),
    ("gradlew", "", ("./gradlew", "test")),
    ("build.gradle", "", ("gradle", "test")),
    ("build.gradle.kts", "", ("gradle", "test")),
    *((name, "", _PYTEST) for name in _PYTHON),
)
_BUILDS: Sequence[Sign] = (
    *((name, "build", ("make", "build")) for name in _MAKEFILES),
    *((name, "", ("make",)) for name in _MAKEFILES),
    ("package.json", "build", ("npm", "run", "build")),
    ("Cargo.toml", "", ("cargo", "build")),
    ("go.mod", "", ("go", "build", "./...")),
    ("pom.xml", "", ("mvn", "--batch-mode", "package")),
    ("gradlew", "", ("./gradlew", "build")),
    ("build.gradle", "", ("gradle", "build")),
    ("build.gradle.kts", "", ("gradle", "build")),
    ("pyproject.toml", "", ("python3", "-m", "build")),
    ("setup.py", "", ("python3", "-m", "build")),
)
_LARGEST = 1 << 20
"""Bytes of a file that are looked at."""


def run_tests(workspace: Workspace, policy: Policy) -> Tool:
    return _build_project_runner(workspace, policy, "run_tests", "tests", _TESTS)


def run_build(workspace: Workspace, policy: Policy) -> Tool:
    return _build_project_runner(workspace, policy, "run_build", "build", _BUILDS)


def _build_project_runner(workspace: Workspace, policy: Policy, name: str, what: str, signs: Sequence[Sign]) -> Tool:
    async def run(arguments: Arguments) -> ToolResult:
        if arguments.get("argv") is None:
            words = check_judged_command(detect_command(workspace, arguments, what, signs))
        else:
            words = as_texts(arguments["argv"], "argv")
        return await run_argv(workspace, policy, words, arguments)

    def fill_arguments(arguments: Arguments) -> Arguments:
        return {} if "argv" in arguments else {"argv": detect_command(workspace, arguments, what, signs)}

    description = (
        f"Run the project's {what}. The command is `argv`, or without it what the folder's files ask for (Makefile, "
        "package.json, Cargo.toml, go.mod, pom.xml, Gradle, Python). It runs the project's own code."
    )
    return build_runner(policy, name, description, [], run, fill_arguments=fill_arguments)


def find_command(workspace: Workspace, tool: str, target: str = "") -> list[str] | None:
    """Return the command `run_tests` or `run_build` runs in the workspace, None where no file says it.

    Of tests only `target` is run, where the command can choose: `file.py::test` of pytest, `module::test` of cargo.
    """
    what, signs = ("tests", _TESTS) if tool == "run_tests" else ("build", _BUILDS)
    try:
        words = detect_command(workspace, {}, what, signs)
        if tuple(words) == _PYTEST and workspace.look(target.partition("::")[0]).kind == "file":
            return [*words, target]
    except WorkspaceError:
        return None
    last = target.rpartition("::")[2]
    return [*words, last] if words == ["cargo", "test"] and last.isidentifier() else words


def detect_command(workspace: Workspace, arguments: Arguments, what: str, signs: Sequence[Sign]) -> list[str]:
    """Return the command the files of a call's folder ask for; raise WorkspaceError where none of them does."""
    here = resolve_folder(workspace, arguments)
    for name, needle, words in signs:
        path = name if here == "." else f"{here}/{name}"
        if workspace.look(path).kind == "file" and has_sign(workspace, path, needle):
            return list(words)
    raise WorkspaceError(f"no file of `{here[:80]}` says how to run its {what}; give the command as `argv`")


def has_sign(workspace: Workspace, path: str, needle: str) -> bool:
    """Whether a file holds what its sign asks for."""
    if not needle:
        return True
    text = workspace.read(path, limit=_LARGEST).decode("utf-8", "replace")
    if not path.endswith(".json"):
        return re2.search(rf"(?m)^{re2.escape(needle)}[ \t]*::?(?:[^:=]|$)", text) is not None
    try:
        package = strict_json.parse(text)
    except InvalidJson:
        return False
    scripts = package.get("scripts") if isinstance(package, dict) else None
    return isinstance(scripts, dict) and isinstance(scripts.get(needle), str)

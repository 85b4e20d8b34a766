"""Tools that run programs: an argument vector, a line for the shell, a project's tests and its build."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import re2

from foregate.agent.sandbox.plan import Plan
from foregate.agent.tools.builtin import declaration
from foregate.agent.tools.tool import Arguments, Run, Tool
from foregate.agent.workspace.confinement import plan_sandbox
from foregate.agent.workspace.process import (
    ProcessResult,
    build_environment,
    cap_text,
    open_temporary_home,
    run_program,
)
from foregate.agent.workspace.workspace import PathState, Workspace, check_judged_command, check_readable
from foregate.policy.policy import Policy
from foregate.policy.risk import commands
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, WorkspaceError
from foregate.schemas.strict_json import Json, as_texts, get_text
from foregate.schemas.tool_call import Command, EvidenceKind, EvidenceRecord, Origin, ToolResult, Trust
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind, TargetParameter

TIMEOUT = declaration.describe_count("Milliseconds after which it is stopped; no longer than the policy allows.")
_CWD = declaration.describe_text("Folder to run in, relative to the workspace; the workspace itself when left out.")
_IN_FOLDER = TargetParameter("cwd", ResourceKind.DIRECTORY, Effect.OBSERVATION)
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


def run_command(workspace: Workspace, policy: Policy) -> Tool:
    async def run(arguments: Arguments) -> ToolResult:
        return await run_argv(workspace, policy, as_texts(arguments.get("argv"), "argv"), arguments)

    description = (
        "Run one program. `argv` is the program and its arguments, each a word of its own; there is no shell, so "
        "no pipes, globs or variables. Output and errors come back together."
    )
    return build_runner(policy, "run_command", description, ["argv"], run)


def build_runner(policy: Policy, name: str, description: str, required: Sequence[str], run: Run, **more: Any) -> Tool:
    """Return a tool that runs an argument vector; `more` are fields of Tool."""
    argv: Json = {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "description": 'Program and arguments, such as ["ls", "-l", "src"].',
    }
    return declaration.build_tool(
        name,
        description,
        {"argv": argv, "cwd": _CWD, "timeout_ms": TIMEOUT},
        required,
        [TargetParameter("argv", ResourceKind.PROCESS, Effect.EXECUTE), _IN_FOLDER],
        run,
        Effect.EXECUTE,
        declaration.SENDER,
        timeout=policy.commands.timeout + declaration.GRACE,
        **more,
    )


async def run_argv(workspace: Workspace, policy: Policy, words: Sequence[str], arguments: Arguments) -> ToolResult:
    """Run an argument vector in the folder and for the time a call says, with evidence where it merely looks."""
    if any("\0" in word for word in words) or not words[0]:
        raise WorkspaceError("a word of `argv` holds a null byte, or the program has no name; correct it")
    cwd = resolve_folder(workspace, arguments)
    observes = not commands.effect_of_command(Command(tuple(words)), policy).changes
    named = [word if word.startswith("/") or cwd == "." else f"{cwd}/{word}" for word in list_operands(words)]
    paths = dict.fromkeys(map(workspace.resolve, named if observes else ()))
    operands = [path for path in paths if workspace.look(path).kind in ("file", "directory")]
    for path in operands:
        check_readable(workspace, path)
    before = [workspace.look(path, max_hash=policy.files.max_hash) for path in operands]
    sandbox = plan_sandbox(workspace, policy, named=operands) if observes else None
    ran, seconds = await run_words(workspace, policy, words, arguments, cwd, trusted_only=observes, sandbox=sandbox)
    records: list[EvidenceRecord] = []
    if observes and ran.code == 0 and not ran.out.parts()[2]:
        seen = zip(operands, before, strict=True)
        records = [build_operand_record(workspace, policy, words[0], path, state) for path, state in seen]
    return build_result(ran, tuple(records), seconds, observes)


async def run_words(
    workspace: Workspace,
    policy: Policy,
    words: Sequence[str],
    arguments: Arguments,
    cwd: str,
    *,
    trusted_only: bool,
    sandbox: Plan | None = None,
) -> tuple[ProcessResult, float]:
    """Run a program in a home of its own, and return what came of it with the seconds it had."""
    seconds, cap = get_seconds(arguments, policy.commands.timeout), policy.files.max_output
    with open_temporary_home() if sandbox is None else nullcontext(sandbox["home"]) as home:
        environment = build_environment(policy, workspace, home, trusted_only=trusted_only)
        ran = await run_program(
            words, workspace, cwd=cwd, environment=environment, timeout=seconds, cap=cap, sandbox=sandbox
        )
    return ran, seconds


def get_seconds(arguments: Arguments, most: int) -> float:
    """Return how long a call may take: what it asks for, and never more than the policy's seconds."""
    asked = "timeout_ms" in arguments
    return min(declaration.get_count(arguments, "timeout_ms") / 1000, most) if asked else most


def run_shell(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that hands a line to the shell; what it does can never be known beforehand."""

    async def run(arguments: Arguments) -> ToolResult:
        line = get_text(arguments, "command")
        if "\0" in line:
            raise WorkspaceError("the command holds a null byte; correct it")
        cwd, words = resolve_folder(workspace, arguments), ("/bin/sh", "-c", line)
        ran, seconds = await run_words(workspace, policy, words, arguments, cwd, trusted_only=False)
        return build_result(ran, (), seconds, False)

    return declaration.build_tool(
        "run_shell",
        "Run a line in the shell (sh). It always counts as something that cannot be undone; where one program is "
        "enough, use run_command.",
        {"command": declaration.describe_text("The line to run."), "cwd": _CWD, "timeout_ms": TIMEOUT},
        ["command"],
        [TargetParameter("command", ResourceKind.PROCESS, Effect.EXECUTE), _IN_FOLDER],
        run,
        Effect.EXECUTE,
        declaration.PUBLISHER,
        timeout=policy.commands.timeout + declaration.GRACE,
    )


def build_operand_record(
    workspace: Workspace, policy: Policy, program: str, path: str, before: PathState
) -> EvidenceRecord:
    """Return what a finished look says of one operand: `cat` shows the whole content, others that it is there."""
    if before.kind == "directory":
        return declaration.build_seen_record(ResourceKind.DIRECTORY, path)
    same = before.hash and workspace.look(path, max_hash=policy.files.max_hash).hash == before.hash
    if same and program == "cat":
        return EvidenceRecord(EvidenceKind.FILE_READ, Resource(ResourceKind.FILE, path), before.hash)
    return declaration.build_seen_record(ResourceKind.FILE, path)


def resolve_folder(workspace: Workspace, arguments: Arguments) -> str:
    path = check_readable(workspace, get_text(arguments, "cwd")) if arguments.get("cwd") is not None else "."
    if workspace.look(path).kind != "directory":
        raise WorkspaceError(f"`{path[:80]}` is not a folder; name one as `cwd`")
    return path


def list_operands(words: Sequence[str]) -> list[str]:
    rest = list(words[1:])
    end = rest.index("--") if "--" in rest else len(rest)
    return [word for word in rest[:end] if word and not word.startswith("-")] + [
        word for word in rest[end:][1:] if word
    ]


def build_result(ran: ProcessResult, records: tuple[EvidenceRecord, ...], seconds: float, observes: bool) -> ToolResult:
    """Return what a command said and how it ended, so that a model reads both."""
    text, dropped = ran.out.text()
    if ran.timed_out:
        text += f"\nstopped after {seconds:g} seconds, with everything it had started"
        return ToolResult(False, text, error="timeout", dropped=dropped, unknown=not observes)
    if ran.code == 0:
        return ToolResult(True, text, records, dropped=dropped, exit_code=0)
    why = f"exit code {ran.code}" if ran.code is not None and ran.code >= 0 else f"ended by signal {-(ran.code or 0)}"
    return ToolResult(False, f"{text}\n{why}".lstrip("\n"), error="exit_code", dropped=dropped, exit_code=ran.code)


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


_PROC = Path("/proc")
_READ = 4096
"""Bytes of a command line that are read."""
_LONGEST = 200
"""Characters of a command line that are shown."""


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """One running process. `words` is empty for one that works elsewhere: its arguments are nobody's business here."""

    pid: int
    parent: int
    state: str
    name: str
    words: tuple[str, ...] = ()

    @property
    def display_line(self) -> str:
        text = " ".join(strict_json.scrub(shlex.join(self.words) if self.words else self.name).split())
        return f"{text[:_LONGEST]}..." if len(text) > _LONGEST else text


def list_processes(workspace: Workspace, policy: Policy) -> Tool:
    def run(arguments: Arguments) -> ToolResult:
        wanted = get_text(arguments, "filter", "").casefold()
        most = min(declaration.get_count(arguments, "limit", policy.files.max_entries), policy.files.max_entries)
        found = [process for process in list_running(workspace) if wanted in process.display_line.casefold()]
        lines = [
            f"{process.pid}  {process.parent}  {process.state}  {process.display_line}" for process in found[:most]
        ]
        if len(found) > most:
            lines.append(f"there is more: only {most} of {len(found)} processes are listed; use a filter")
        seen = dict.fromkeys(strict_json.scrub(shlex.join(process.words)) for process in found[:most] if process.words)
        records = [
            EvidenceRecord(
                EvidenceKind.PROCESS_STATE, Resource(ResourceKind.PROCESS, line), "", Trust.INFERRED, Origin.EXTERNAL
            )
            for line in seen
        ]
        said = ["pid  parent  state  command", *lines] if lines else ["no such process"]
        text, dropped = cap_text("\n".join(said), policy.files.max_output)
        return ToolResult(True, text, tuple(records), origin=Origin.EXTERNAL, dropped=dropped)

    return declaration.build_tool(
        "list_processes",
        "List the user's running processes: number, parent, state and name; of those that run in the workspace the "
        "whole command.",
        {
            "filter": {
                "type": "string",
                "description": "Only processes whose line contains this; case does not matter.",
            },
            "limit": declaration.describe_count("Processes to list at most."),
        },
        None,
        [],
        run,
    )


def list_running(workspace: Workspace) -> Iterator[RunningProcess]:
    """Yield this user's processes by number; raise WorkspaceError where the system does not show them."""
    if not (_PROC / "self/stat").exists():
        raise WorkspaceError("this system does not show its processes under /proc; use run_command with `ps`")
    for pid in sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()):
        try:
            if (_PROC / str(pid)).stat().st_uid == os.geteuid():
                yield read_process(pid, workspace)
        except (OSError, ValueError):
            continue


def read_process(pid: int, workspace: Workspace) -> RunningProcess:
    """Return what the system says of a process; raise OSError or ValueError when it has gone."""
    folder = _PROC / str(pid)
    before, _, after = (folder / "stat").read_bytes().rpartition(b")")
    state, parent = after.split()[:2]
    name = before.partition(b"(")[2].decode("utf-8", "replace")
    return RunningProcess(pid, int(parent), state.decode(), name, read_words(folder, workspace))


def read_words(folder: Path, workspace: Workspace) -> tuple[str, ...]:
    """Return the command line of a process that works in the workspace, nothing for any other."""
    try:
        if not (folder / "cwd").readlink().is_relative_to(workspace.root):
            return ()
        with (folder / "cmdline").open("rb") as stream:
            data = stream.read(_READ)
    except OSError:
        return ()
    return tuple(word.decode("utf-8", "replace") for word in data.rstrip(b"\0").split(b"\0")) if data else ()

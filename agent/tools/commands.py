"""Tools that run programs: an argument vector, a line for the shell, a project's tests and its build."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.tools import builtin_tool
from foregate.agent.tools.builtin_tool import build_printed_records
from foregate.agent.tools.git import read_git_state
from foregate.agent.tools.network_refusal import explain_refusal
from foregate.agent.tools.tool import Arguments, Run, Tool
from foregate.agent.workspace.cancelled_work import run_to_end
from foregate.agent.workspace.confinement import find_folder, find_tier, list_secret_files, make_upper, plan_sandbox
from foregate.agent.workspace.git_repository import GitRepository, build_variables, seek_repository
from foregate.agent.workspace.in_place import plan_in_place
from foregate.agent.workspace.process import (
    ProcessResult,
    build_environment,
    leave_out_posing,
    open_temporary_home,
    run_program,
)
from foregate.agent.workspace.work_sandbox import (
    collect_changes,
    collect_limited,
    discard_sandbox,
    open_work_sandbox,
)
from foregate.agent.workspace.workspace import Workspace, check_readable, find_judged_survey
from foregate.policy.policy import Policy
from foregate.policy.risk.access import FORMS, parse_access
from foregate.policy.risk.reading import (
    CommandReading,
    can_hold_work,
    has_leading_words,
    is_held_read,
    is_read,
    list_git_folders,
    read_command_line,
)
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.sandbox import Access, SandboxedChanges
from foregate.schemas.strict_json import Json, as_texts, get_text
from foregate.schemas.tool_call import Command, EvidenceRecord, ToolResult
from foregate.schemas.tool_spec import Effect, ResourceKind, TargetParameter

TIMEOUT = builtin_tool.describe_count("Milliseconds after which it is stopped; no longer than the policy allows.")
_CWD = builtin_tool.describe_text("Folder to run in, relative to the workspace; the workspace itself when left out.")
_ACCESS: Json = {
    "type": "array",
    "items": {"type": "string"},
    "description": f"What it needs of the world outside its sandbox, each {FORMS}. Somebody is asked about it; leave "
    "it out where the command only works in the workspace.",
}
_HOW: Mapping[str, Json] = {"cwd": _CWD, "timeout_ms": TIMEOUT, "access": _ACCESS}
_IN_FOLDER = TargetParameter("cwd", ResourceKind.DIRECTORY, Effect.OBSERVATION)
_SLOW = "give it more time by `timeout_ms`, or less to do"
_NEVER_OPEN = frozenset(("ls", "stat", "file", "find", "test", "[", "du", "realpath", "readlink", "echo", "cd", "pwd"))
"""Programs that look at a special file and do not read from it."""


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
    return builtin_tool.build_tool(
        name,
        description,
        {"argv": argv, **_HOW},
        required,
        [TargetParameter("argv", ResourceKind.PROCESS, Effect.EXECUTE), _IN_FOLDER],
        run,
        Effect.EXECUTE,
        builtin_tool.SENDER,
        timeout=policy.commands.timeout + builtin_tool.GRACE,
        **more,
    )


async def run_argv(workspace: Workspace, policy: Policy, words: Sequence[str], arguments: Arguments) -> ToolResult:
    """Run an argument vector in the folder and for the time a call says, with evidence of what it printed."""
    if any("\0" in word for word in words) or not words[0]:
        raise WorkspaceError("a word of `argv` holds a null byte, or the program has no name; correct it")
    return await run_judged(workspace, policy, Command(tuple(words)), arguments)


async def run_judged(workspace: Workspace, policy: Policy, command: Command, arguments: Arguments) -> ToolResult:
    """Run a command, in a sandbox where it only reads and this machine has one; its words say which."""
    cwd, tier = resolve_folder(workspace, arguments), find_tier(workspace, policy)["tier"]
    reads, held = is_read(command, policy, tier), is_held_read(command, policy, tier)
    reading = read_command_line(command, policy)
    paths = list_operands(command.argv) if reads and not held else reading.operands
    named = find_operands(workspace, cwd, paths, reading.texts, strict=reads)
    if reads:
        check_operands(workspace, reading, named)
    repositories = await asyncio.to_thread(find_repositories, workspace, policy, reading, cwd) if reads else []
    survey = find_judged_survey()
    if survey is not None and not reads and can_hold_work(policy, survey.work):
        return await _run_work(workspace, policy, command, arguments, cwd, named, in_place=survey.work == "limited")
    sandbox = None
    if reads:
        # one that git tracks would look deleted
        secret = list_secret_files(workspace, policy) if repositories else []
        tracked = [path for repository in repositories for path in repository.list_tracked(secret)]
        programs = place_programs(reading, cwd)
        sandbox = plan_sandbox(workspace, policy, named=[*named, *tracked], programs=programs)
    if held and sandbox is None:
        raise WorkspaceError("this machine has no sandbox any more; `foregate doctor` tells why")
    words = command.argv or ("/bin/sh", "-c", command.shell)
    trusted, git = reading.programs if reads else None, bool(repositories)
    ran, seconds = await run_words(workspace, policy, words, arguments, cwd, programs=trusted, git=git, sandbox=sandbox)
    records: list[EvidenceRecord] = []
    if ran.code == 0 and not ran.out.parts()[2]:
        records = await asyncio.to_thread(build_records, workspace, policy, ran.out.bytes(), named, is_read=reads)
    for repository in repositories if ran.code == 0 else ():
        records.append(await read_git_state(repository))
    result = build_result(ran, tuple(records), seconds, reads)
    return _add_refusal(result, ran, (), sandbox, reads=True) if sandbox is not None else result


async def _run_work(
    workspace: Workspace,
    policy: Policy,
    command: Command,
    arguments: Arguments,
    cwd: str,
    named: Mapping[str, str],
    *,
    in_place: bool,
) -> ToolResult:
    """Run a command on a copy of the workspace; the result says what it changed there, and nothing else has changed.

    With `in_place` it changes the workspace itself, where whoever calls puts back what was there before.
    """
    reading = read_command_line(replace(command, access=_read_requests(arguments)), policy)
    access, installs = reading.access, has_leading_words(reading, policy.commands.installs)
    words, programs = command.argv or ("/bin/sh", "-c", command.shell), place_programs(reading, cwd)
    found = SandboxedChanges(upper=make_upper(find_folder(workspace)))
    try:
        if in_place:
            plan = plan_in_place(workspace, policy, programs)
        else:
            plan = await run_to_end(open_work_sandbox, workspace, policy, found.upper, access, programs)
        ran, seconds = await run_words(workspace, policy, words, arguments, cwd, sandbox=plan)
        if ran.code is not None and not ran.excess and in_place:
            found = await run_to_end(collect_limited, workspace, policy, found.upper, installs)
        elif ran.code is not None and not ran.excess:
            found = await run_to_end(collect_changes, workspace, policy, plan, installs)
    finally:
        if not found.changes:
            await run_to_end(discard_sandbox, found)
    shown = ran.code == 0 and not ran.out.parts()[2]
    records = build_records(workspace, policy, ran.out.bytes(), named, is_read=False) if shown else []
    result = _add_refusal(build_result(ran, tuple(records), seconds, not access), ran, access, plan, reads=False)
    more = "\nnothing of what it did was kept" * (ran.excess or ran.code is None)
    more += f"\nnot put into the workspace: {'; '.join(found.left_out[:8])}" if found.left_out else ""
    return replace(result, content=f"{result.content}{more}", sandboxed=found)


def _add_refusal(
    result: ToolResult, ran: ProcessResult, access: Collection[Access], plan: SandboxPlan, *, reads: bool
) -> ToolResult:
    """Return a result that also says what the sandbox of a command refused it, where that is not said already."""
    if ran.excess:
        return result
    wanted, home = ran.traffic.wanted, str(Path.home())
    why = explain_refusal(result.content, ran.code, wanted, access, home=home, tier=plan["tier"], reads=reads)
    return replace(result, content=f"{result.content}\n{why}") if why else result


def _read_requests(arguments: Arguments) -> tuple[Access, ...]:
    given = arguments.get("access")
    return tuple(parse_access(text) for text in as_texts(given, "access")) if given else ()


def place_programs(reading: CommandReading, cwd: str) -> list[str]:
    """Return the programs a command names by paths, relative to the workspace or absolute."""
    return [os.path.join(cwd, name) for name in reading.programs if "/" in name]  # noqa: PTH118 - text


def find_operands(
    workspace: Workspace, cwd: str, paths: Sequence[str], texts: Sequence[str], *, strict: bool
) -> dict[str, str]:
    """Return the paths a command names where something is, each with the word it was named by.

    With `strict` a path outside the workspace raises WorkspaceError; a text that merely looks like one does not.
    """
    found: dict[str, str] = {}
    for word in dict.fromkeys((*paths, *texts)):
        placed = word if word.startswith("/") or cwd == "." else f"{cwd}/{word}"
        try:
            path = workspace.resolve(placed)
            if workspace.look(path).kind:
                found.setdefault(path, placed)
        except WorkspaceError:
            if strict and word in paths:
                raise
    return found


def check_operands(workspace: Workspace, reading: CommandReading, named: Mapping[str, str]) -> None:
    """Raise WorkspaceError for a path that was not judged, or a special file a program would wait at for ever."""
    programs = {segment.words[0] for segment in reading.segments if segment.words}
    for path in named:
        check_readable(workspace, path)
        if workspace.look(path).kind == "other" and not programs <= _NEVER_OPEN:
            raise WorkspaceError(f"`{path[:80]}` is a pipe, a socket or a device, which may never end; name a file")


def find_repositories(workspace: Workspace, policy: Policy, reading: CommandReading, cwd: str) -> list[GitRepository]:
    """Return the repositories the git commands of a read look at; raise WorkspaceError for one that runs programs."""
    found: dict[str, GitRepository] = {}
    for folder in list_git_folders(reading):
        place = folder if folder.startswith("/") or cwd == "." else f"{cwd}/{folder}"
        repository = seek_repository(workspace, policy, place or ".")
        if repository is not None and repository.id not in found:
            repository.check_safe(as_it_is=True)
            found[repository.id] = repository
    return list(found.values())


def build_records(
    workspace: Workspace, policy: Policy, output: bytes, named: Mapping[str, str], *, is_read: bool
) -> list[EvidenceRecord]:
    """Return what an output shows of the files a command names; of what one that reads names, at least that it is."""
    kinds = {path: workspace.look(path).kind for path in named}
    files = {path: word for path, word in named.items() if kinds[path] == "file"}
    records = build_printed_records(workspace, policy, output, files)
    known = {record.resource.id for record in records}
    for path in named if is_read else ():
        if path not in known and kinds[path] in ("file", "directory"):
            kind = ResourceKind.DIRECTORY if kinds[path] == "directory" else ResourceKind.FILE
            records.append(builtin_tool.build_seen_record(kind, path))
    return records


async def run_words(
    workspace: Workspace,
    policy: Policy,
    words: Sequence[str],
    arguments: Arguments,
    cwd: str,
    *,
    programs: Sequence[str] | None = None,
    git: bool = False,
    sandbox: SandboxPlan | None = None,
) -> tuple[ProcessResult, float]:
    """Run a program in a home of its own, and return its result with the seconds it had.

    `programs` are those it starts where it only reads: none of them is found in the workspace. With `git` no
    repository has git run another program.
    """
    seconds, cap = get_seconds(arguments, policy.commands.timeout), policy.files.max_output
    with open_temporary_home() if sandbox is None else nullcontext(sandbox["home"]) as home:
        environment = build_environment(policy, workspace, home, trusted_only=programs is not None)
        if programs is not None:
            environment["PATH"] = leave_out_posing(environment["PATH"], programs, workspace.root)
        if git:
            environment |= build_variables()
        ran = await run_program(
            words, workspace, cwd=cwd, environment=environment, timeout=seconds, cap=cap, sandbox=sandbox
        )
    return ran, seconds


def get_seconds(arguments: Arguments, most: int) -> float:
    """Return how long a call may take: what it asks for, and never more than the policy's seconds."""
    asked = "timeout_ms" in arguments
    return min(builtin_tool.get_count(arguments, "timeout_ms") / 1000, most) if asked else most


def run_shell(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that hands a line to the shell."""

    async def run(arguments: Arguments) -> ToolResult:
        line = get_text(arguments, "command")
        if "\0" in line:
            raise WorkspaceError("the command holds a null byte; correct it")
        return await run_judged(workspace, policy, Command(shell=line), arguments)

    return builtin_tool.build_tool(
        "run_shell",
        "Run a line in the shell (sh), with pipes, globs and variables. What it changes in the workspace can be "
        "undone where the machine has sandboxes.",
        {
            "command": builtin_tool.describe_text("The line to run."),
            "cwd": _CWD,
            "timeout_ms": TIMEOUT,
            "access": _ACCESS,
        },
        ["command"],
        [TargetParameter("command", ResourceKind.PROCESS, Effect.EXECUTE), _IN_FOLDER],
        run,
        Effect.EXECUTE,
        builtin_tool.PUBLISHER,
        timeout=policy.commands.timeout + builtin_tool.GRACE,
    )


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
        text += f"\nstopped after {seconds:g} seconds, with everything it had started; {_SLOW}"
        return ToolResult(False, text, error="timeout", dropped=dropped, unknown=not observes)
    if ran.code == 0:
        return ToolResult(True, text, records, dropped=dropped, exit_code=0)
    why = f"exit code {ran.code}" if ran.code is not None and ran.code >= 0 else f"ended by signal {-(ran.code or 0)}"
    return ToolResult(False, f"{text}\n{why}".lstrip("\n"), error="exit_code", dropped=dropped, exit_code=ran.code)

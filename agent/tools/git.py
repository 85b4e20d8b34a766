"""Tools for git: fixed commands on repositories of the workspace, with everything a repository could run set back.

Staging counts as an edit of the repository, committing as a commit on it; both can be undone and leave files alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from foregate.agent.tools import builtin_tool
from foregate.agent.tools.tool import Arguments, Tool, cap_text
from foregate.agent.workspace.git_repository import UNENTERED, GitRepository, find_repository
from foregate.agent.workspace.process import ProcessResult
from foregate.agent.workspace.workspace import Workspace, check_readable
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import find_protection
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json, as_texts, get_bool, get_list, get_text
from foregate.schemas.tool_call import Change, EvidenceKind, EvidenceRecord, ToolResult
from foregate.schemas.tool_spec import OBSERVER, Effect, Resource, ResourceKind, TargetParameter

_REPOSITORY = "A folder of the repository, relative to the workspace; the workspace itself when left out."
_PATHS = builtin_tool.describe_paths("Files or folders")
_REV = builtin_tool.describe_text("A commit, branch or tag such as `HEAD~1`, or a range such as `main..HEAD`.")
_NAMED = 8
"""Nested repositories that are named one by one."""
# "main", "HEAD~2", "v1.0^{commit}"; "--output=a" is an option and no commit.
_SIDE = compile_late(r"[A-Za-z0-9_@][A-Za-z0-9_./~^@{}+-]*\Z")
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", UNENTERED)


def _build_tool(
    workspace: Workspace,
    policy: Policy,
    name: str,
    description: str,
    properties: Mapping[str, Json],
    required: Sequence[str],
    run: Callable[[GitRepository, Arguments], Awaitable[ToolResult]],
    access: Effect = Effect.OBSERVATION,
) -> Tool:
    """Return a tool over a repository; `run` gets the one a call names, checked to be harmless to look at."""

    async def run_on_repository(arguments: Arguments) -> ToolResult:
        return await run(await asyncio.to_thread(open_named_repository, workspace, policy, arguments), arguments)

    targets = [TargetParameter("path", ResourceKind.REPOSITORY, access, ".")]
    if "paths" in properties:
        targets.append(TargetParameter("paths", ResourceKind.FILE, Effect.OBSERVATION))
    return builtin_tool.build_tool(
        name,
        description,
        {"path": builtin_tool.describe_text(_REPOSITORY), **properties},
        required,
        targets,
        run_on_repository,
        access,
        builtin_tool.WRITER if access.changes else OBSERVER,
        timeout=policy.commands.timeout + builtin_tool.GRACE,
    )


def open_named_repository(workspace: Workspace, policy: Policy, arguments: Arguments) -> GitRepository:
    repository = find_repository(workspace, policy, get_text(arguments, "path", "."))
    repository.check_safe()
    return repository


def get_literal_paths(repository: GitRepository, arguments: Arguments) -> list[str]:
    """Return the paths of a call relative to the repository; raise WorkspaceError for one in a nested repository."""
    named = as_texts(get_list(arguments, "paths"), "paths")
    found = [repository.to_repository_path(check_readable(repository.workspace, path)) for path in named]
    for path in found:
        if inner := repository.find_nested_above(path):
            raise WorkspaceError(
                f"`{path[:80]}` lies in `{inner[:80]}`, which is a repository of its own; name that one as `path`"
            )
    return found


async def read_git_state(repository: GitRepository, *, own: bool = False) -> EvidenceRecord:
    resource, state = (
        Resource(ResourceKind.REPOSITORY, repository.id),
        await asyncio.to_thread(repository.compute_state),
    )
    return EvidenceRecord(EvidenceKind.GIT_STATE, resource, state, own_change=own)


async def read_status(repository: GitRepository) -> tuple[str, int]:
    """Return the state of branch, index and files as text, and the bytes left out."""
    ran = await repository.run_async("status", "--porcelain=v1", "--branch", UNENTERED)
    text, dropped = ran.out.text()
    return text + await asyncio.to_thread(describe_unseen, repository), dropped


def describe_unseen(repository: GitRepository, paths: Sequence[str] = ()) -> str:
    """Return a line that names the nested repositories at `paths` nobody looked into, "" where there are none."""
    names = [strict_json.scrub(name) for name in repository.find_nested(*paths) if repository.is_nested(name)]
    if not names:
        return ""
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"(changes inside nested repositories are not shown: {shown}; name one as `path` to see them)\n"


def split_names(ran: ProcessResult, what: str, errors: str = "surrogateescape") -> list[str]:
    """Return the names a git command lists with `-z`; raise WorkspaceError when they were more than is kept."""
    return [name for name in ran.read_whole(what).decode("utf-8", errors).split("\0") if name]


def git_status(workspace: Workspace, policy: Policy) -> Tool:
    async def run(repository: GitRepository, arguments: Arguments) -> ToolResult:
        text, dropped = await read_status(repository)
        return ToolResult(True, text, (await read_git_state(repository),), dropped=dropped)

    description = "Show branch, staged and changed files of a git repository."
    return _build_tool(workspace, policy, "git_status", description, {}, [], run)


def git_diff(workspace: Workspace, policy: Policy) -> Tool:
    async def run(repository: GitRepository, arguments: Arguments) -> ToolResult:
        staged = get_bool(arguments, "staged", False)
        rev = await asyncio.to_thread(resolve_revision, repository, arguments)
        words = ["diff", *_PLAIN, *(["--cached"] if staged else []), *rev]
        named = get_literal_paths(repository, arguments)
        paths, hidden = await filter_secrets(repository, words, named)
        ran = await repository.run_async(*words, "--", *paths)
        text, dropped = ran.out.text()
        if hidden:
            text += f"({hidden} changed files that usually hold secrets are not shown; name one in `paths` to see it)"
        records = [await read_git_state(repository)]
        # Only here was all of what is in the files shown.
        if not staged and not rev and not dropped:
            names = await repository.run_async(*words, "--name-only", "-z", "--", *paths)
            records += build_diff_records(repository, names.out.text()[0].split("\0"))
        # What is in the files is compared.
        if not staged and ".." not in get_text(arguments, "rev", ""):
            more = await asyncio.to_thread(describe_unseen, repository, named)
            text = "\n".join([text.rstrip("\n"), more]) if text and more else text + more
        return ToolResult(True, text or "no changes", tuple(records), dropped=dropped)

    staged = builtin_tool.describe_flag("Show what is staged for the next commit. Default false.")
    return _build_tool(
        workspace,
        policy,
        "git_diff",
        "Show changes that are not staged, or with `staged` those that are; with `rev` what differs from it.",
        {"rev": _REV, "staged": staged, "paths": _PATHS},
        [],
        run,
    )


async def filter_secrets(repository: GitRepository, words: Sequence[str], paths: list[str]) -> tuple[list[str], int]:
    """Return the paths a diff may show, and how many changed files are left out: secrets no path of the call names.

    A secret among the paths of the call was judged as such. Where nothing else has changed the git folder is named,
    which no diff ever shows.
    """
    policy = repository.policy
    ran = await repository.run_async(*words, "--name-only", "-z", "--", *paths, cap=policy.files.max_hash)
    names = split_names(ran, "what has changed")

    def is_hidden(name: str) -> bool:
        place = strict_json.scrub(repository.to_workspace_path(name))
        return name not in paths and find_protection(place, policy) == "secret"

    hidden = set(filter(is_hidden, names))
    if not hidden:
        return paths, 0
    return [name for name in names if name not in hidden] or [".git"], len(hidden)


def build_diff_records(repository: GitRepository, names: Sequence[str]) -> list[EvidenceRecord]:
    limits, records = repository.policy.files, []
    for path in (repository.to_workspace_path(name) for name in names[: limits.max_entries] if name):
        found = repository.workspace.look(path, max_hash=limits.max_hash)
        if found.kind == "file":
            records.append(builtin_tool.build_seen_record(ResourceKind.FILE, path, found.hash))
    return records


def git_log(workspace: Workspace, policy: Policy) -> Tool:
    async def run(repository: GitRepository, arguments: Arguments) -> ToolResult:
        count = builtin_tool.get_count(arguments, "count", 10)
        paths = get_literal_paths(repository, arguments)
        if not await asyncio.to_thread(repository.read_head):
            return ToolResult(True, "no commits yet")
        form = ("--format=%h %ad %an: %s", "--date=short", "--no-show-signature")
        rev = await asyncio.to_thread(resolve_revision, repository, arguments)
        ran = await repository.run_async("log", *_PLAIN, f"--max-count={count}", *form, *rev, "--", *paths)
        text, dropped = ran.out.text()
        return ToolResult(True, text or "no commits", (await read_git_state(repository),), dropped=dropped)

    count = builtin_tool.describe_count("How many. Default 10.", maximum=1000)
    properties = {"rev": _REV, "count": count, "paths": _PATHS}
    return _build_tool(workspace, policy, "git_log", "Show the newest commits, one line each.", properties, [], run)


def resolve_revision(repository: GitRepository, arguments: Arguments) -> list[str]:
    """Return the commits a call names by their hashes, so that no name is an option, a path or a file's content."""
    if arguments.get("rev") is None:
        return []
    rev = get_text(arguments, "rev")
    left, dots, right = rev.partition("..." if "..." in rev else "..")
    return [dots.join(resolve_commit(repository, side or "HEAD") for side in ([left, right] if dots else [left]))]


def resolve_commit(repository: GitRepository, name: str) -> str:
    """Return the hash of the commit a name stands for; raise WorkspaceError where it stands for none."""
    if _SIDE.match(name):
        ran = repository.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
        if ran.code == 0:
            return ran.out.text()[0].strip()
    raise WorkspaceError(f"`{name[:80]}` is no commit of this repository; name one that git_log shows")


def git_add(workspace: Workspace, policy: Policy) -> Tool:
    async def run(repository: GitRepository, arguments: Arguments) -> ToolResult:
        paths = get_literal_paths(repository, arguments)
        await asyncio.to_thread(refuse_nested, repository, paths)
        await asyncio.to_thread(refuse_filters, repository, paths)
        before = await asyncio.to_thread(repository.compute_state)
        await repository.run_async("add", "--", *paths)
        text, dropped = await read_status(repository)
        return await build_change_result(repository, before, f"staged; the state is now:\n{text}", dropped)

    description = "Stage files for the next commit."
    return _build_tool(workspace, policy, "git_add", description, {"paths": _PATHS}, ["paths"], run, Effect.EDIT)


def refuse_nested(repository: GitRepository, paths: Sequence[str]) -> None:
    """Raise WorkspaceError for a nested repository: to stage it, git would run the programs its settings name."""
    untracked = repository.run("ls-files", "-z", "--others", "--exclude-standard", "--", *paths)
    names = split_names(untracked, "what would be staged")
    inner = [name for name in (*paths, *repository.find_nested(*paths)) if repository.is_nested(name)]
    inner += [name[:-1] for name in names if name.endswith("/")]
    if inner:
        name = strict_json.scrub(inner[0])[:80]
        raise WorkspaceError(
            f"`{name}` is a repository of its own, which git_add does not stage; name the files beside it"
        )


def refuse_filters(repository: GitRepository, paths: Sequence[str]) -> None:
    """Raise WorkspaceError when an attribute of a file to be staged names a filter, which is never run here."""
    limit = repository.policy.files.max_entries
    listed = repository.run("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths)
    names = split_names(listed, "what would be staged", "replace")
    for start in range(0, len(names), limit):
        ran = repository.run("check-attr", "-z", "filter", "--", *names[start : start + limit])
        parts = ran.read_whole("the attributes of what would be staged").decode("utf-8", "replace").split("\0")
        for name, value in zip(parts[0::3], parts[2::3], strict=False):
            if value not in ("unspecified", "unset"):
                raise WorkspaceError(
                    f"`{name[:80]}` has the attribute filter={value[:40]}, which is not run here; stage it yourself"
                )


def git_commit(workspace: Workspace, policy: Policy) -> Tool:
    async def run(repository: GitRepository, arguments: Arguments) -> ToolResult:
        message = get_text(arguments, "message")
        if "\0" in message or not message.strip():
            raise WorkspaceError("the message is empty or holds a null byte; say what the commit does")
        before = await asyncio.to_thread(repository.compute_state)
        if not await asyncio.to_thread(repository.list_paths, "staged"):
            return ToolResult(False, "nothing is staged; use git_add first", error="nothing_staged")
        more = await asyncio.to_thread(repository.read_identity)
        words = [
            "commit",
            "--no-verify",
            "--no-gpg-sign",
            "--no-status",
            "--cleanup=whitespace",
            f"--message={message}",
        ]
        if get_bool(arguments, "signoff", False):
            words.append("--signoff")
        ran = await repository.run_async(*words, more=more)
        text, dropped = ran.out.text()
        return await build_change_result(repository, before, cap_text(text, policy.files.max_output)[0], dropped)

    properties = {
        "message": builtin_tool.describe_text("What the commit does and why."),
        "signoff": builtin_tool.describe_flag("Add a line that signs it off. Default false."),
    }
    return _build_tool(
        workspace, policy, "git_commit", "Commit what is staged.", properties, ["message"], run, Effect.COMMIT
    )


async def build_change_result(repository: GitRepository, before: str, text: str, dropped: int) -> ToolResult:
    """Return the result of a change to a repository, with its new state as evidence."""
    record = await read_git_state(repository, own=True)
    changes = (Change(record.resource, before, record.hash),) if before != record.hash else ()
    return ToolResult(True, text, (record,), changes, dropped=dropped)

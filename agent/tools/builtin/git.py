"""Tools for git: fixed commands on repositories of the workspace, with everything a repository could run set back.

Staging counts as an edit of the repository, committing as a commit on it; both can be undone and leave files alone.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence

from foregate.agent.tools.builtin.declaration import get_count
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.git_repository import UNENTERED, GitRepository, find_repository, read_whole_output
from foregate.agent.workspace.process import cap_text
from foregate.agent.workspace.workspace import Workspace, check_readable
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import find_protection
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.strict_json import Json, as_texts, get_bool, get_list, get_object, get_text
from foregate.schemas.tool_call import Change, EvidenceKind, EvidenceRecord, ToolResult, Trust
from foregate.schemas.tool_spec import OBSERVER, Capabilities, Effect, Resource, ResourceKind, TargetParameter, ToolSpec

STAGER = Capabilities(
    read_only=False, external_side_effect=False, needs_approval=False, idempotent=False, reversible=True
)
_REPOSITORY: Mapping[str, Json] = {
    "type": "string",
    "minLength": 1,
    "description": "A folder of the repository, relative to the workspace; the workspace itself when left out.",
}
_PATHS: Mapping[str, Json] = {
    "type": "array",
    "items": {"type": "string", "minLength": 1},
    "minItems": 1,
    "description": "Files or folders, relative to the workspace; taken as they are, not as patterns.",
}
_REV: Mapping[str, Json] = {
    "type": "string",
    "minLength": 1,
    "description": "A commit, branch or tag such as `HEAD~1`, or a range such as `main..HEAD`.",
}
_NAMED = 8
"""Nested repositories that are named one by one."""
_SIDE = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_./~^@{}+-]*\Z")
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", UNENTERED)


def _build_schema(required: Sequence[str] = (), **properties: Json) -> Mapping[str, Json]:
    return {
        "type": "object",
        "properties": {"path": _REPOSITORY, **properties},
        "required": list(required),
        "additionalProperties": False,
    }


def _build_tool(
    policy: Policy,
    name: str,
    description: str,
    schema: Mapping[str, Json],
    run: Callable[[Mapping[str, Json]], Awaitable[ToolResult]],
    access: Effect = Effect.OBSERVATION,
) -> Tool:
    targets = [TargetParameter("path", ResourceKind.REPOSITORY, access, ".")]
    if "paths" in get_object(schema, "properties"):
        targets.append(TargetParameter("paths", ResourceKind.FILE, Effect.OBSERVATION))
    capabilities = STAGER if access.changes else OBSERVER
    spec = ToolSpec(
        name, description, schema, access, capabilities, tuple(targets), "builtin", timeout=policy.commands.timeout + 15
    )
    return Tool(spec, run)


def open_named_repository(workspace: Workspace, policy: Policy, arguments: Mapping[str, Json]) -> GitRepository:
    """Return the repository a call names, checked to be harmless to look at."""
    repository = find_repository(workspace, policy, get_text(arguments, "path", "."))
    repository.check_safe()
    return repository


def get_literal_paths(workspace: Workspace, repository: GitRepository, arguments: Mapping[str, Json]) -> list[str]:
    """Return the paths of a call relative to the repository; raise WorkspaceError for one in a nested repository."""
    named = as_texts(get_list(arguments, "paths"), "paths")
    found = [repository.to_repository_path(check_readable(workspace, path)) for path in named]
    for path in found:
        if inner := repository.find_nested_above(path):
            raise WorkspaceError(
                f"`{path[:80]}` lies in `{inner[:80]}`, which is a repository of its own; name that one as `path`"
            )
    return found


def read_git_state(repository: GitRepository, *, own: bool = False) -> EvidenceRecord:
    """Return the record of a repository's branch, commit and staged state."""
    resource = Resource(ResourceKind.REPOSITORY, repository.id)
    return EvidenceRecord(EvidenceKind.GIT_STATE, resource, repository.compute_state(), own_change=own)


async def read_status(repository: GitRepository) -> tuple[str, int]:
    """Return the state of branch, index and files as text, and the bytes left out."""
    ran = await repository.run_async("status", "--porcelain=v1", "--branch", UNENTERED)
    text, dropped = ran.out.text()
    return text + await asyncio.to_thread(describe_unseen, repository), dropped


def describe_unseen(repository: GitRepository, paths: Sequence[str] = ()) -> str:
    """Return a line that names the nested repositories at `paths` whose files nobody looked at, "" where there are
    none."""
    names = [strict_json.scrub(name) for name in repository.find_nested(*paths) if repository.is_nested(name)]
    if not names:
        return ""
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"(changes inside nested repositories are not shown: {shown}; name one as `path` to see them)\n"


def git_status(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that shows a repository's state."""

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        repository = await asyncio.to_thread(open_named_repository, workspace, policy, arguments)
        text, dropped = await read_status(repository)
        record = await asyncio.to_thread(read_git_state, repository)
        return ToolResult(True, text, (record,), dropped=dropped)

    return _build_tool(
        policy, "git_status", "Show branch, staged and changed files of a git repository.", _build_schema(), run
    )


def git_diff(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that shows changes against the index, or what is staged."""

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        repository = await asyncio.to_thread(open_named_repository, workspace, policy, arguments)
        staged = get_bool(arguments, "staged", False)
        rev = await asyncio.to_thread(resolve_revision, repository, arguments)
        words = ["diff", *_PLAIN, *(["--cached"] if staged else []), *rev]
        named = get_literal_paths(workspace, repository, arguments)
        paths, hidden = await filter_secrets(policy, repository, words, named)
        ran = await repository.run_async(*words, "--", *paths)
        text, dropped = ran.out.text()
        if hidden:
            text += f"({hidden} changed files that usually hold secrets are not shown; name one in `paths` to see it)"
        records = [await asyncio.to_thread(read_git_state, repository)]
        if not staged and not rev and not dropped:
            names = await repository.run_async(*words, "--name-only", "-z", "--", *paths)
            records += build_diff_records(workspace, policy, repository, names.out.text()[0].split("\0"))
        if not staged and ".." not in get_text(arguments, "rev", ""):  # what is in the files is compared
            more = await asyncio.to_thread(describe_unseen, repository, named)
            text = "\n".join([text.rstrip("\n"), more]) if text and more else text + more
        return ToolResult(True, text or "no changes", tuple(records), dropped=dropped)

    return _build_tool(
        policy,
        "git_diff",
        "Show changes that are not staged, or with `staged` those that are; with `rev` what differs from it.",
        _build_schema(
            rev=_REV,
            staged={"type": "boolean", "description": "Show what is staged for the next commit. Default false."},
            paths=_PATHS,
        ),
        run,
    )


async def filter_secrets(
    policy: Policy, repository: GitRepository, words: Sequence[str], paths: list[str]
) -> tuple[list[str], int]:
    """Return the paths a diff may show, and how many changed files are left out: secrets that nobody named.

    A secret among the paths of the call was judged as such. Where nothing else has changed the git folder is named,
    which no diff ever shows.
    """
    ran = await repository.run_async(*words, "--name-only", "-z", "--", *paths, cap=policy.files.max_hash)
    names = [
        name
        for name in read_whole_output(ran, "what has changed").decode("utf-8", "surrogateescape").split("\0")
        if name
    ]
    hidden = {
        name
        for name in names
        if name not in paths
        and find_protection(strict_json.scrub(repository.to_workspace_path(name)), policy) == "secret"
    }
    if not hidden:
        return paths, 0
    return [name for name in names if name not in hidden] or [".git"], len(hidden)


def build_diff_records(
    workspace: Workspace, policy: Policy, repository: GitRepository, names: Sequence[str]
) -> list[EvidenceRecord]:
    """Return records of the files a diff showed a part of."""
    records = []
    for name in names[: policy.files.max_entries]:
        path = repository.to_workspace_path(name)
        found = workspace.look(path, max_hash=policy.files.max_hash) if name else None
        if found is not None and found.kind == "file":
            resource = Resource(ResourceKind.FILE, path)
            records.append(EvidenceRecord(EvidenceKind.COMMAND_OUTPUT, resource, found.hash, Trust.INFERRED))
    return records


def git_log(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that shows the newest commits."""

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        repository = await asyncio.to_thread(open_named_repository, workspace, policy, arguments)
        count = get_count(arguments, "count", 10)
        paths = get_literal_paths(workspace, repository, arguments)
        if not await asyncio.to_thread(repository.read_head):
            return ToolResult(True, "no commits yet")
        words = [
            "log",
            *_PLAIN,
            f"--max-count={count}",
            "--format=%h %ad %an: %s",
            "--date=short",
            "--no-show-signature",
            *await asyncio.to_thread(resolve_revision, repository, arguments),
        ]
        ran = await repository.run_async(*words, "--", *paths)
        text, dropped = ran.out.text()
        record = await asyncio.to_thread(read_git_state, repository)
        return ToolResult(True, text or "no commits", (record,), dropped=dropped)

    return _build_tool(
        policy,
        "git_log",
        "Show the newest commits, one line each.",
        _build_schema(
            rev=_REV,
            count={"type": "integer", "minimum": 1, "maximum": 1000, "description": "How many. Default 10."},
            paths=_PATHS,
        ),
        run,
    )


def resolve_revision(repository: GitRepository, arguments: Mapping[str, Json]) -> list[str]:
    """Return the commits a call names by their hashes, so that no name is an option, a path or a file's content.

    Raises WorkspaceError for a name that stands for no commit.
    """
    if arguments.get("rev") is None:
        return []
    rev = get_text(arguments, "rev")
    left, dots, right = rev.partition("..." if "..." in rev else "..")
    return [dots.join(resolve_commit(repository, side or "HEAD") for side in ([left, right] if dots else [left]))]


def resolve_commit(repository: GitRepository, name: str) -> str:
    """Return the hash of the commit a name stands for."""
    ran = (
        repository.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
        if _SIDE.match(name)
        else None
    )
    if ran is None or ran.code != 0:
        raise WorkspaceError(f"`{name[:80]}` is no commit of this repository; name one that git_log shows")
    return ran.out.text()[0].strip()


def git_add(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that stages files."""

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        repository = await asyncio.to_thread(open_named_repository, workspace, policy, arguments)
        paths = get_literal_paths(workspace, repository, arguments)
        await asyncio.to_thread(refuse_nested, repository, paths)
        await asyncio.to_thread(refuse_filters, repository, paths)
        before = await asyncio.to_thread(repository.compute_state)
        await repository.run_async("add", "--", *paths)
        text, dropped = await read_status(repository)
        return await build_change_result(repository, before, f"staged; the state is now:\n{text}", dropped)

    return _build_tool(
        policy, "git_add", "Stage files for the next commit.", _build_schema(("paths",), paths=_PATHS), run, Effect.EDIT
    )


def refuse_nested(repository: GitRepository, paths: Sequence[str]) -> None:
    """Raise WorkspaceError when one of the paths is or holds a nested repository.

    To stage one, git would start itself in there and run the programs its settings name.
    """
    untracked = repository.run("ls-files", "-z", "--others", "--exclude-standard", "--", *paths)
    names = [os.fsdecode(name) for name in read_whole_output(untracked, "what would be staged").split(b"\0")]
    inner = [path for path in paths if repository.is_nested(path)]
    inner += [name for name in repository.find_nested(*paths) if repository.is_nested(name)]
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
    names = [
        name
        for name in read_whole_output(listed, "what would be staged").decode("utf-8", "replace").split("\0")
        if name
    ]
    for start in range(0, len(names), limit):
        ran = repository.run("check-attr", "-z", "filter", "--", *names[start : start + limit])
        parts = read_whole_output(ran, "the attributes of what would be staged").decode("utf-8", "replace").split("\0")
        for name, value in zip(parts[0::3], parts[2::3], strict=False):
            if value not in ("unspecified", "unset"):
                raise WorkspaceError(
                    f"`{name[:80]}` has the attribute filter={value[:40]}, which is not run here; stage it yourself"
                )


def git_commit(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that commits what is staged."""

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        message = get_text(arguments, "message")
        if "\0" in message or not message.strip():
            raise WorkspaceError("the message is empty or holds a null byte; say what the commit does")
        repository = await asyncio.to_thread(open_named_repository, workspace, policy, arguments)
        before = await asyncio.to_thread(repository.compute_state)
        if not await asyncio.to_thread(repository.list_staged_paths):
            return ToolResult(False, "nothing is staged; use git_add first", error="nothing_staged")
        more = await asyncio.to_thread(repository.read_identity)
        words = (
            "commit",
            "--no-verify",
            "--no-gpg-sign",
            "--no-status",
            "--cleanup=whitespace",
            *(["--signoff"] if get_bool(arguments, "signoff", False) else []),
            f"--message={message}",
        )
        ran = await repository.run_async(*words, more=more)
        text, dropped = ran.out.text()
        return await build_change_result(repository, before, cap_text(text, policy.files.max_output)[0], dropped)

    return _build_tool(
        policy,
        "git_commit",
        "Commit what is staged.",
        _build_schema(
            ("message",),
            message={"type": "string", "minLength": 1, "description": "What the commit does and why."},
            signoff={"type": "boolean", "description": "Add a line that signs it off. Default false."},
        ),
        run,
        Effect.COMMIT,
    )


async def build_change_result(repository: GitRepository, before: str, text: str, dropped: int) -> ToolResult:
    """Return the result of a change to a repository, with its new state as evidence."""
    record = await asyncio.to_thread(read_git_state, repository, own=True)
    change = Change(record.resource, before, record.hash)
    return ToolResult(True, text, (record,), (change,) if before != record.hash else (), dropped=dropped)

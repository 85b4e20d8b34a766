"""The tool that pushes one branch to one remote: to the address that was judged, and nowhere a setting points instead.

Git is given the address itself and not the remote's name, so that nothing the repository says of the remote counts.
Nobody is asked for a password: ssh uses its own keys, https only what needs none.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice

from msgspec import Struct

from foregate.agent.tools import builtin_tool
from foregate.agent.tools.git import open_named_repository, resolve_commit, split_names
from foregate.agent.tools.tool import Arguments, Tool
from foregate.agent.workspace.git_repository import GitRepository, open_repository, seek_repository
from foregate.agent.workspace.process import ProcessResult, build_environment
from foregate.agent.workspace.workspace import Workspace, check_judged
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import is_off_limits
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.event_body import Remotes
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import get_bool, get_text
from foregate.schemas.tool_call import Change, ToolResult
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind, TargetParameter

_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})"
_USER = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}@"
_PATH = r"[A-Za-z0-9_.~/+@%-]{1,1024}"
_FORMS = (
    # "https://example.org/a/b.git".
    ("https", compile_late(rf"https://{_HOST}(?::[0-9]{{1,5}})?/{_PATH}\Z")),
    # "ssh://git@example.org:22/a/b.git".
    ("ssh", compile_late(rf"ssh://(?:{_USER})?{_HOST}(?::[0-9]{{1,5}})?/{_PATH}\Z")),
    # "git@example.org:a/b.git"; "ext::sh", by which git runs a program, is no such address.
    ("ssh", compile_late(rf"(?:{_USER})?{_HOST}:(?!//){_PATH}\Z")),
)
# "origin".
_REMOTE = compile_late(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")
# "main", "fix/typo"; "+main" would push over what is there.
_BRANCH = compile_late(r"[A-Za-z0-9_][A-Za-z0-9_./+-]{0,199}\Z")
# "url.https://example.org/.insteadof", "http.proxy".
_LEADS_ELSEWHERE = compile_late(r"(url\..*\.(insteadof|pushinsteadof)|http\..*|credential\..*\..*)\Z", re.DOTALL)
# "remote.origin.url".
_SETS_URL = compile_late(r"remote\.(.+)\.(?:push)?url", re.DOTALL)
_ON_BRANCH = "ref: refs/heads/"
_MOST_REMOTES = 32
_UNUSED = ("push.followTags=false", "push.gpgSign=false", "push.negotiate=false", "push.recurseSubmodules=no")
_SETTINGS = (*_UNUSED, "push.pushOption=", "ssh.variant=ssh")
_SSH = "ssh -oBatchMode=yes -oStrictHostKeyChecking=yes -oPermitLocalCommand=no -oClearAllForwardings=yes"
_LOCAL = (
    "git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.alternateRefsCommand=true -c gc.auto=0 "
    "-c maintenance.auto=false -c receive.autogc=false -c receive.denyCurrentBranch=refuse receive-pack"
)
"""What receives a push in a repository on this machine: the same neutral settings on that side."""


class PushAddress(Struct, frozen=True):
    """Where a push goes: how git gets there, the text that is judged, and the one git is given."""

    protocol: str
    shown: str
    given: str


def git_push(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool. What is judged is the address behind the remote's name and the commit behind the branch's."""

    def plan_push(arguments: Arguments) -> tuple[GitRepository, PushAddress, str]:
        repository = open_named_repository(workspace, policy, arguments)
        address = resolve_address(repository, get_text(arguments, "remote"), read_settings(repository))
        branch = get_text(arguments, "branch")
        if not _BRANCH.match(branch):
            raise WorkspaceError("`branch` is no plain branch name; name one that git_status shows")
        return repository, address, resolve_commit(repository, f"refs/heads/{branch}")

    def fill_arguments(arguments: Arguments) -> Arguments:
        _, address, commit = plan_push(arguments)
        return {"remote": address.shown, "branch": format_branch(get_text(arguments, "branch"), commit)}

    async def run(arguments: Arguments) -> ToolResult:
        repository, address, commit = await asyncio.to_thread(plan_push, arguments)
        branch = get_text(arguments, "branch")
        # Settings and branch may have changed since the call was judged.
        check_judged(address.shown, get_text(arguments, "remote"))
        check_judged(format_branch(branch, commit), branch)
        receiver = _LOCAL if address.protocol == "file" else "git-receive-pack"
        forced = ["--force"] if get_bool(arguments, "force", False) else []
        words = ["push", "--porcelain", "--no-verify", "--recurse-submodules=no", f"--receive-pack={receiver}", *forced]
        ran = await repository.run_async(
            *words,
            "--",
            address.given,
            # The commit that was judged, wherever the branch stands by now.
            f"{commit}:refs/heads/{branch}",
            settings=_SETTINGS,
            more=build_push_environment(policy, workspace, address),
            check=False,
        )
        return build_result(ran, address, format_branch(branch, commit), commit)

    folder = "A folder of the repository, relative to the workspace; default the workspace."
    return builtin_tool.build_tool(
        "git_push",
        "Push one branch to the branch of the same name at one remote. Without `force` a remote that has moved on "
        "refuses it.",
        {
            "remote": builtin_tool.describe_text("A remote's name, such as `origin`."),
            "branch": builtin_tool.describe_text("A local branch, such as `main`."),
            "force": builtin_tool.describe_flag("Overwrite what is at the remote and not here. Default false."),
            "path": builtin_tool.describe_text(folder),
        },
        ["remote", "branch"],
        [
            TargetParameter("remote", ResourceKind.OTHER, Effect.SEND),
            TargetParameter("branch", ResourceKind.OTHER, Effect.OBSERVATION),
            TargetParameter("path", ResourceKind.REPOSITORY, Effect.OBSERVATION, "."),
        ],
        run,
        Effect.SEND,
        builtin_tool.PUBLISHER,
        timeout=policy.commands.timeout + builtin_tool.GRACE,
        fill_arguments=fill_arguments,
    )


def format_branch(branch: str, commit: str) -> str:
    """Return a branch with the commit it stands on: another commit is another push."""
    return f"{branch} at {commit}"


def resolve_address(repository: GitRepository, remote: str, settings: Sequence[tuple[str, str]]) -> PushAddress:
    """Return where a remote's name leads by the repository's settings.

    Raises WorkspaceError where a setting could lead elsewhere.
    """
    if not _REMOTE.match(remote):
        raise WorkspaceError("`remote` is no plain name of a remote; name one of the repository, such as `origin`")
    url = find_remote_url(settings, remote)
    for name, _ in settings:
        if _LEADS_ELSEWHERE.match(name.lower()) or name.lower().startswith(f"remote.{url}.".lower()):
            raise WorkspaceError(
                f"the repository's setting `{name[:80]}` could lead a push elsewhere; remove it, or push it yourself"
            )
    protocol = next((protocol for protocol, form in _FORMS if form.match(url)), "")
    return PushAddress(protocol, url, url) if protocol else resolve_local_address(repository, url)


def read_settings(repository: GitRepository) -> list[tuple[str, str]]:
    """Return the names and values of a repository's settings in git's order, those it includes as well."""
    listed = repository.run("config", "--list", "--includes", "-z")
    entries = (entry.partition("\n") for entry in split_names(listed, "its settings", "replace"))
    return [(name, value) for name, _, value in entries]


def find_remote_url(settings: Iterable[tuple[str, str]], remote: str) -> str:
    for key in ("pushurl", "url"):
        urls = [value for name, value in settings if name == f"remote.{remote}.{key}"]
        if len(urls) > 1:
            raise WorkspaceError(f"the remote `{remote}` has several addresses; push it yourself, or leave it one")
        if urls:
            return urls[0]
    raise WorkspaceError(f"the repository has no remote `{remote}`; add it, or name another one")


def read_remotes(workspace: Workspace, policy: Policy) -> Remotes | None:
    """Return the remotes of the repository that is the workspace, None without one or where they are unknown.

    Left out is a remote that a push would refuse.
    """
    try:
        repository = seek_repository(workspace, policy, ".")
        if repository is None:
            return None
        settings = read_settings(repository)
        head = workspace.read(f"{repository.git}/HEAD", limit=4096).decode("utf-8", "replace").strip()
    except (WorkspaceError, OSError):
        return None
    names = dict.fromkeys(found[1] for name, _ in settings if (found := _SETS_URL.fullmatch(name)))
    addresses = {}
    for name in islice(names, _MOST_REMOTES):
        with suppress(WorkspaceError, OSError):
            addresses[name] = resolve_address(repository, name, settings).shown
    branch = head.removeprefix(_ON_BRANCH) if head.startswith(_ON_BRANCH) else ""
    values = dict(settings)
    keys = (f"branch.{branch}.pushremote", "remote.pushdefault", f"branch.{branch}.remote")
    usual = next((values[key] for key in keys if key in values), "origin")
    return Remotes(addresses, usual if usual in addresses else "", branch)


def resolve_local_address(repository: GitRepository, url: str) -> PushAddress:
    """Return the address of a bare repository, inside the workspace or outside; raise WorkspaceError for all else."""
    workspace = repository.workspace
    name = url.removeprefix("file://")
    if ":" in name or "\n" in name or not name:
        raise WorkspaceError(f"the address `{url[:80]!a}` is neither https nor ssh nor a path; push it yourself")
    try:
        path = workspace.resolve(name if name.startswith("/") or repository.id == "." else f"{repository.id}/{name}")
    except WorkspaceError:
        return resolve_outside_address(workspace, repository.id, name)
    if is_off_limits(path, repository.policy) or workspace.look(f"{path}/HEAD").kind != "file":
        raise build_not_bare_error(path)
    open_repository(workspace, repository.policy, path, path)
    return PushAddress("file", path, str(workspace.root / path))


def resolve_outside_address(workspace: Workspace, beside: str, name: str) -> PushAddress:
    """Return the address of a bare repository outside the workspace, by its real path: that is what a yes is given to.

    Nothing the agent may write lies there, so it is trusted as one behind https is; a way out that leads in again
    would only go round what is looked at inside.
    """
    try:
        real = (workspace.root / beside / name).resolve()
        bare = real.name != ".git" and (real / "HEAD").is_file() and (real / "objects").is_dir()
    except (OSError, RuntimeError, ValueError):
        raise build_not_bare_error(name) from None
    if real.is_relative_to(workspace.root.resolve()):
        raise WorkspaceError(f"the remote `{name[:200]}` leads out of the workspace and in again; give its plain path")
    if not bare:
        raise build_not_bare_error(str(real))
    return PushAddress("file", str(real), str(real))


def build_not_bare_error(path: str) -> WorkspaceError:
    return WorkspaceError(f"`{path[:200]}` is no bare repository; only such ones are pushed to")


def build_push_environment(policy: Policy, workspace: Workspace, address: PushAddress) -> dict[str, str]:
    """Return what git may use for this one push: its protocol, and ssh without questions."""
    more = {"GIT_ALLOW_PROTOCOL": address.protocol}
    if address.protocol == "ssh":
        more["GIT_SSH_COMMAND"] = _SSH
        agent = build_environment(policy, workspace, "/dev/null", trusted_only=True).get("SSH_AUTH_SOCK")
        more |= {"SSH_AUTH_SOCK": agent} if agent else {}
    return more


def build_result(ran: ProcessResult, address: PushAddress, pushed: str, commit: str) -> ToolResult:
    text = "\n".join(part for part in (ran.out.text()[0].strip(), ran.err.text()[0].strip()) if part)
    if ran.timed_out or ran.code is None:
        return ToolResult(False, f"the push did not end in time\n{text}", error="timeout", unknown=True)
    if ran.code != 0:
        return ToolResult(False, text or f"git ended with {ran.code}", error="not_pushed", exit_code=ran.code)
    if "\n=\t" in f"\n{text}":
        return ToolResult(True, f"`{address.shown}` has {pushed} already\n{text}", exit_code=0)
    change = Change(Resource(ResourceKind.OTHER, address.shown), "", commit)
    # The remote's own answer.
    seen = builtin_tool.build_change_record(change.resource, commit)
    return ToolResult(True, f"pushed {pushed} to `{address.shown}`\n{text}", (seen,), (change,), exit_code=0)

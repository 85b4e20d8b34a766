"""Sandboxes in which programs work: they change what they see of the workspace, and the workspace stays unchanged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from foregate.agent.sandbox.caches import keep_folders, prune_caches, release_folders
from foregate.agent.sandbox.changes import list_changes
from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.sandbox.probe import Probe
from foregate.agent.sandbox.starter import SandboxFailed
from foregate.agent.sandbox.visible import plan_work
from foregate.agent.workspace.access import check_secrets_stay, give_access
from foregate.agent.workspace.confinement import (
    discard_upper,
    find_folder,
    find_tier,
    hold_upper,
    list_secret_files,
    note_end,
    open_probe,
    probe_plan,
    show_programs,
    sweep_folder,
)
from foregate.agent.workspace.git_repository import seek_repository
from foregate.agent.workspace.in_place import collect_in_place
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.commands_section import SandboxLimits
from foregate.policy.policy import Policy
from foregate.schemas.errors import ForegateError, WorkspaceError
from foregate.schemas.sandbox import Access, PathChange, SandboxedChanges
from foregate.schemas.tool_spec import Effect

_LEFT_OUT = {
    "leads_out": "is a link that leads out of the workspace",
    "special": "is a device, a pipe or a socket",
    "privileged": "would run with the rights of somebody else",
}
"""Why a path a command has made is never put into the workspace."""
_TRY = "test -w . && : > .foregate-probe && test ! -w /"


def find_work_tier(workspace: Workspace, policy: Policy) -> Probe:
    """Return what this machine can hold work with, found out once by running a command in a sandbox.

    With `limited` a command works in the workspace itself, where `find_reason_against` says nothing against it. Raises
    WorkspaceError where it could not be found out; see `find_tier`.
    """
    # Also one in memory.
    if workspace.root == Path("/"):
        return Probe(tier="none", reason="a workspace that is the whole machine cannot be shown in a sandbox", cure="")
    path = os.environ.get("PATH", os.defpath)
    try:
        folder = find_folder(workspace)
    except SandboxFailed:
        raise
    except WorkspaceError as error:
        return Probe(tier="none", reason=str(error), cure="")
    found = _probe(workspace.root, folder, path, policy.commands.sandbox)
    if found["tier"] == "full" or folder.is_relative_to(workspace.root):
        return found
    return {**found, "tier": "limited"} if find_tier(workspace, policy)["tier"] == "limited" else found


@lru_cache(maxsize=32)
def _probe(root: Path, folder: Path, path: str, limits: SandboxLimits) -> Probe:
    with open_probe(folder) as upper:
        return probe_plan(lambda: _plan(root, upper, folder, path, limits, ()), _TRY)


def open_work_sandbox(
    workspace: Workspace, policy: Policy, upper: str, access: Sequence[Access] = (), programs: Sequence[str] = ()
) -> SandboxPlan:
    """Return the plan of a new sandbox that is given `access`, and whose folder for what is written there is `upper`.

    It shows what `programs` need, as `show_programs` does. Secret files are not there, but for those that git tracks,
    which would look deleted; with a way out not even those. Raises WorkspaceError where something cannot be given.
    """
    folder = Path(upper).parent
    try:
        secret, path = list_secret_files(workspace, policy), os.environ.get("PATH", os.defpath)
        tracked = () if access else _list_tracked(workspace, policy, secret)
        hidden = tuple(name for name in secret if name not in tracked)
        plan = show_programs(_plan(workspace.root, upper, folder, path, policy.commands.sandbox, hidden), programs)
        prune_caches(plan["caches"], plan["workspace"])
        plan = give_access(plan, access, policy, home=str(Path.home()), own=str(folder.parent))
        check_secrets_stay(plan, secret)
    except ForegateError as error:
        raise WorkspaceError(str(error)) from None
    return plan


def _list_tracked(workspace: Workspace, policy: Policy, paths: Sequence[str]) -> Sequence[str]:
    """Return those of some paths that git tracks, none where its repository is not to be looked into."""
    with suppress(WorkspaceError):
        repository = seek_repository(workspace, policy, ".") if paths else None
        return repository.list_tracked(paths) if repository is not None else ()
    return ()


def collect_changes(workspace: Workspace, policy: Policy, plan: SandboxPlan, installs: bool) -> SandboxedChanges:
    """Return what a finished program has changed in its sandbox, and nothing else of it.

    Caches whose content is run unread stay with the sandboxes of this workspace, but where the command `installs`.
    Raises WorkspaceError where there is too much to list.
    """
    limits, root = policy.commands.sandbox, str(workspace.root)
    note_end(plan["upper"])
    top = os.path.join(root, "")  # noqa: PTH118 - there may be many masks, and a Path for each is slow
    masks = [mask.removeprefix(top) for mask in plan["masks"] if mask.startswith(top)]
    bounds = {"max_paths": limits.files, "max_bytes": limits.written}
    upper, caches = plan["upper"], plan["caches"]
    listed = list_changes(upper, plan["workspace"], caches=caches, masks=masks, **bounds)
    names = () if installs else policy.files.executed_caches
    if kept := {top for one in listed if (top := _find_cache(one.path, policy.files.executed_caches))}:
        keep_folders(upper, caches, plan["workspace"], sorted(kept), **bounds)
        if installs:
            release_folders(upper, caches, sorted(kept))
        listed = list_changes(upper, plan["workspace"], caches=caches, masks=masks, **bounds)
    unseen = next((one.path for one in listed if one.refused == "unseen"), None)
    if unseen is not None:
        raise WorkspaceError(
            f"nothing was changed: `{unseen[:80]}` holds what the command could not see, a file with secrets or "
            "another file system, and would have been changed, deleted or moved with it; leave that folder alone"
        )
    return _choose_changes(listed, names, upper)


def collect_limited(workspace: Workspace, policy: Policy, upper: str, installs: bool) -> SandboxedChanges:
    """Return what a finished program has changed in the workspace itself, with what it left there now in `upper`.

    Nothing keeps caches whose content is run unread, but where the command `installs`. Raises WorkspaceError where
    there is too much to list.
    """
    listed, names = collect_in_place(workspace, policy, upper), () if installs else policy.files.executed_caches
    note_end(upper)
    return _choose_changes(listed, names, upper)


def _choose_changes(listed: Sequence[PathChange], names: Sequence[str], upper: str) -> SandboxedChanges:
    """Return changes without caches of some names, and without what is never applied, which it says.

    With none left, `upper` is thrown away.
    """
    rest = [one for one in listed if one.effect is Effect.DELETE or not _find_cache(one.path, names)]
    # The workspace's own mode is the person's.
    rest = [one for one in rest if one.path != "."]
    left_out = tuple(f"`{one.path[:80]}` {_LEFT_OUT[one.refused]}" for one in rest if one.refused)
    found = SandboxedChanges(tuple(one for one in rest if not one.refused), upper, left_out)
    if not found.changes:
        discard_sandbox(found)
        return replace(found, upper="")
    return found


def _find_cache(path: str, names: Sequence[str]) -> str:
    """Return the folder of one of the names which a path is or lies in, "" for a path elsewhere."""
    parts = path.split("/")
    at = next((place for place, part in enumerate(parts) if part in names), None)
    return "" if at is None else "/".join(parts[: at + 1])


def is_kept(found: SandboxedChanges) -> bool:
    """Whether what a sandbox holds is still there; it is then kept while this process lives."""
    if found.upper:
        hold_upper(found.upper)
    return not found.upper or Path(found.upper, "upper").is_dir()


def discard_sandbox(found: SandboxedChanges) -> None:
    """Throw away what a sandbox holds."""
    if found.upper:
        discard_upper(found.upper)


def sweep_sandboxes(workspace: Workspace, policy: Policy) -> None:
    """Remove what sandboxes of this workspace left, once it is older than the policy keeps it."""
    with suppress(WorkspaceError):
        sweep_folder(find_folder(workspace), policy.commands.sandbox.kept)


def _plan(
    root: Path, upper: str, folder: Path, path: str, limits: SandboxLimits, secret: tuple[str, ...]
) -> SandboxPlan:
    return plan_work(
        str(root),
        path,
        str(Path.home()),
        upper=upper,
        caches=str(folder / "caches"),
        packages=str(folder / "packages"),
        masks=secret,
        scratch_bytes=limits.scratch,
        limits={
            "memory_bytes": limits.memory,
            "processes": limits.processes,
            "written_bytes": limits.written,
            "written_files": limits.files,
        },
    )

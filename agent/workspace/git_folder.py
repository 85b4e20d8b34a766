"""The folder git keeps a repository in: where it is, and whether what it says of itself has git leave the workspace."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from foregate.agent.workspace.workspace import Workspace, refuse_errors
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError

_ENTERED = ("refs", "logs", "info", "objects", "reftable")
"""Folders git follows links in on the way of a tool; those in `hooks` lead nowhere, since no hook is run."""
_STORES = 64
"""Object stores one repository may be made of."""
_LISTED = 65536
"""Bytes of one list of alternates that are read."""
_PLAIN_PATH = 4096


def find_git_folder(workspace: Workspace, here: str) -> str:
    """Return the git folder of the repository at `here`, "" for none; raise WorkspaceError where it leads outside."""
    inside = ".git" if here == "." else f"{here}/.git"
    kind = workspace.look(inside).kind
    if kind in ("", "directory"):
        return inside if kind else ""
    if kind != "file":
        raise WorkspaceError(f"`{inside[:80]}` is a link or something special; a repository needs its own git folder")
    text = _read_line(workspace, inside)
    if not text.startswith("gitdir: "):
        raise WorkspaceError(f"`{inside[:80]}` is no git folder and names none")
    return _resolve_path(workspace, here, text.removeprefix("gitdir: "), inside)


def find_common_folder(workspace: Workspace, git: str) -> str:
    """Return the folder of objects, branches and settings, often `git` itself; raise WorkspaceError for one outside."""
    named = f"{git}/commondir"
    if not workspace.look(named).kind:
        return git
    return _resolve_path(workspace, git, _read_line(workspace, named), named)


def _read_line(workspace: Workspace, path: str) -> str:
    return workspace.read(path, limit=_PLAIN_PATH).decode("utf-8", "replace").strip()


def _resolve_path(workspace: Workspace, beside: str, path: str, named: str) -> str:
    """Return the id of a path that the file `named` gives relative to `beside`."""
    try:
        return workspace.resolve(path if path.startswith("/") or beside == "." else f"{beside}/{path}")
    except WorkspaceError:
        raise WorkspaceError(
            f"`{named[:80]}` leads git outside the workspace; open the folder that holds both as the workspace"
        ) from None


def refuse_ways_out(workspace: Workspace, git: str) -> None:
    """Raise WorkspaceError when git would read or write outside the workspace by what its own folder says.

    That is by the folder it shares, by a link, or by an object store of another repository (`info/alternates`).
    No variable and no setting has git leave alternates out, so they are read here, at each call, as git reads them.
    """
    common = find_common_folder(workspace, git)
    for folder in dict.fromkeys((git, common)):
        _refuse_links(workspace, folder, _ENTERED)
    _refuse_foreign_objects(workspace, f"{common}/objects")


def _refuse_links(workspace: Workspace, folder: str, entered: Collection[str] | None = None) -> None:
    """Raise WorkspaceError when there is a link beneath a folder; of its own folders only `entered` are looked into."""
    pending = [folder]
    while pending:
        here = pending.pop()
        with (
            refuse_errors("list", here),
            suppress(FileNotFoundError, NotADirectoryError),
            workspace.directory(here) as fd,
            os.scandir(fd) as entries,
        ):
            # The kind comes with the name, so that thousands of objects cost no `stat` each.
            for entry in entries:
                path = f"{here}/{entry.name}"
                if entry.is_symlink():
                    shown = strict_json.scrub(path)[:80]
                    raise WorkspaceError(f"`{shown}` is a link in git's own folder; the git tools do not follow it")
                deeper = here != folder or entered is None or entry.name in entered
                if deeper and entry.is_dir(follow_symlinks=False):
                    pending.append(path)


def _refuse_foreign_objects(workspace: Workspace, store: str) -> None:
    """Raise WorkspaceError when an object store, or one it borrows from, borrows from one outside the workspace."""
    pending, seen = [store], {store}
    while pending:
        here = pending.pop()
        for other in _read_alternates(workspace, here):
            if other not in seen:
                seen.add(other)
                pending.append(other)
                _refuse_links(workspace, other)
        if len(seen) > _STORES:
            raise WorkspaceError(
                f"`{store[:80]}` borrows from more than {_STORES} stores; run `git repack -a -d` there"
            )


def _read_alternates(workspace: Workspace, store: str) -> list[str]:
    """Return the stores that one borrows from; raise WorkspaceError for a list that cannot be read or leads outside."""
    listed = f"{store}/info/alternates"
    found = workspace.look(listed)
    if not found.kind:
        return []
    if found.kind != "file" or found.size > _LISTED:
        raise WorkspaceError(f"`{listed[:80]}` is no plain list of object stores; remove it, and copy what it borrows")
    lines = workspace.read(listed, limit=_LISTED + 1).decode("utf-8", "surrogateescape").split("\n")
    return [_resolve_store(workspace, store, line, listed) for line in lines if line and not line.startswith("#")]


def _resolve_store(workspace: Workspace, beside: str, line: str, listed: str) -> str:
    """Return the store a line of the list means; one in quotes counts as outside, since git writes none."""
    with suppress(WorkspaceError, OSError, RuntimeError, ValueError):
        path = str(Path(line).resolve()) if line.startswith("/") else f"{beside}/{line}"
        if not line.startswith('"'):
            return workspace.resolve(path)
    raise WorkspaceError(
        f"`{listed[:80]}` has git read objects outside the workspace, in `{strict_json.scrub(line)[:120]}`; copy them "
        "with `git repack -a -d` and remove that file, or open the folder that holds both as the workspace"
    )

"""Where a link leads in a view of the workspace."""

from __future__ import annotations

import os
import stat

from foregate.agent.sandbox.layers import Layer, Merged

_MOST_LINKS = 40


def leads_out(written: Layer, below: Merged, workspace: str, path: str) -> bool:
    """Whether a link at a path relative to the workspace leads out of it, as seen in the view; links are followed.

    What is absolute must start with the resolved path of the workspace. Raises OSError.
    """
    view = Merged((written, *below.layers))
    at, rest = path.split("/")[:-1], path.split("/")[-1:]
    links = 0
    while rest and links <= _MOST_LINKS:  # a circle leads nowhere
        name = rest.pop(0)
        if name == ".." and not at:
            return True
        if name == "..":
            at.pop()
        elif name not in ("", "."):
            target = _read_link(view, at, name)
            if target is None:
                at.append(name)
                continue
            links += 1
            if target.startswith("/"):
                if not f"{target}/".startswith(f"{workspace}/"):
                    return True
                at, target = [], target[len(workspace) :]
            rest = target.split("/") + rest
    return False


def _read_link(view: Merged, folders: list[str], name: str) -> str | None:
    with view.open_beneath(folders) as folder:
        entry = folder.find(name) if folder else None
        if entry is None or not stat.S_ISLNK(entry.status.st_mode):
            return None
        return os.readlink(name, dir_fd=entry.layer.folder)

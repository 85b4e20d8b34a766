"""Where a link leads in a view of the workspace."""

from __future__ import annotations

import os
import stat

from foregate.agent.sandbox.layers import Merged, OverlayLayer
from foregate.agent.sandbox.programs import is_linked_python

_MOST_LINKS = 40


def leads_out(written: OverlayLayer, below: Merged, workspace: str, path: str) -> bool:
    """Whether a link at a path relative to the workspace leads out of it, as seen in the view; links are followed.

    What is absolute must start with the resolved path of the workspace. The Python of a virtual environment may be a
    link to an installation of Python. Raises OSError.
    """
    way = _find_way_out(written, below, workspace, path)
    return bool(way) and not is_linked_python(path, way)


def _find_way_out(written: OverlayLayer, below: Merged, workspace: str, path: str) -> str:
    """Return where outside of the workspace a link leads, "" where it does not."""
    view = Merged((written, *below.layers))
    at, rest = path.split("/")[:-1], path.split("/")[-1:]
    links = 0
    # A circle leads nowhere.
    while rest and links <= _MOST_LINKS:
        name = rest.pop(0)
        if name == ".." and not at:
            return "/".join([workspace, name, *rest])
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
                    return "/".join([target, *rest])
                at, target = [], target[len(workspace) :]
            rest = target.split("/") + rest
    return ""


def _read_link(view: Merged, folders: list[str], name: str) -> str | None:
    with view.open_beneath(folders) as folder:
        entry = folder.find(name) if folder else None
        if entry is None or not stat.S_ISLNK(entry.status.st_mode):
            return None
        return os.readlink(name, dir_fd=entry.layer.folder)

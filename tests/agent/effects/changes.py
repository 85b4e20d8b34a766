"""A call for each way to change what is in a folder, and a folder in which all of them can be made."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

Call = tuple[str, dict[str, Any]]


def snapshot(folder: Path) -> dict[str, object]:
    """Return names, kinds, modes and contents of everything in a folder, git's own files apart."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        if ".git" in path.relative_to(folder).parts:
            continue
        mode = stat.S_IMODE(path.lstat().st_mode)
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (mode, content)
    return found


CHANGES: dict[str, Call] = {
    "create": ("write_file", {"path": "new/deep/n.txt", "content": "new"}),
    "replace": ("write_file", {"path": "a.sh", "content": "new"}),
    "edit": ("edit_file", {"path": "a.sh", "old": "one", "new": "two"}),
    "edit through a link": ("edit_file", {"path": "link", "old": "one", "new": "two"}),
    "replace by pattern": ("search_replace", {"paths": ["a.sh"], "pattern": "(o)n", "replacement": "$1$1"}),
    "render over a file": ("render_template", {"template": "tree/t", "path": "a.sh", "variables": {"x": "1"}}),
    "make a folder": ("create_directory", {"path": "x/y"}),
    "delete": ("delete_path", {"path": "a.sh"}),
    "delete a link": ("delete_path", {"path": "link"}),
    "delete an empty folder": ("delete_path", {"path": "empty"}),
    "delete a tree": ("delete_path", {"path": "tree", "recursive": True}),
    "move": ("move_path", {"source": "a.sh", "destination": "far/b.sh"}),
    "move a folder": ("move_path", {"source": "tree", "destination": "far/off"}),
    "move a link": ("move_path", {"source": "link", "destination": "other"}),
}


def furnish(folder: Path) -> Path:
    """Put what the changes need into an empty folder, and return it."""
    (folder / "a.sh").write_text("one\n")
    (folder / "a.sh").chmod(0o750)
    (folder / "link").symlink_to("a.sh")
    (folder / "empty").mkdir(mode=0o700)
    (folder / "tree/sub").mkdir(parents=True)
    (folder / "tree/sub/f").write_bytes(b"\0\xff")
    (folder / "tree/sub/f").chmod(0o600)
    (folder / "tree/t").write_text("{{ x }}")
    (folder / "tree/out").symlink_to("/etc")
    (folder / "tree/sub").chmod(0o555)
    return folder

"""`foregate policy`: the group, and what its commands share. Other files add the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foregate.cli.commands import options

app = options.build_group()
File = Annotated[str, typer.Argument(metavar="FILE", help="A policy file, or the name of a shipped one.")]


def require_folder(workspace: Path) -> Path:
    """Return the workspace's path; raise WorkspaceError when it is no folder."""
    from foregate.agent.workspace.local import LocalWorkspace

    space = LocalWorkspace(workspace)
    space.close()
    return space.root

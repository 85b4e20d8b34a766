"""`foregate policy`: the group, and what its commands share. Other files add the commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.views.terminal.exit_codes import USAGE

if TYPE_CHECKING:
    from foregate.policy.source.layers import Layer

app = options.build_group()
File = Annotated[str, typer.Argument(metavar="FILE", help="A policy file, or the name of a shipped one.")]


def require_folder(workspace: Path) -> Path:
    """Return the workspace's path; raise WorkspaceError when it is no folder."""
    from foregate.agent.workspace.local import LocalWorkspace

    space = LocalWorkspace(workspace)
    space.close()
    return space.root


def require_usable(file: str) -> Layer:
    """Return what a policy file says, which is read once, as it may be a pipe; where it cannot be used, print why and
    exit with 2. Raises PolicyError where it cannot be read."""
    from foregate.policy.source.layers import build_layer, read_text
    from foregate.policy.source.load import check_text, resolve_policy_file

    named = resolve_policy_file(file)
    text = read_text(named, kind="policy")
    if problems := check_text(str(named), named.name, text):
        options.print_problems(problems)
        raise typer.Exit(USAGE)
    return build_layer(str(named), named.name, text)

"""`foregate policy`: what holds, where it comes from, and whether a file can be used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foregate.cli import options

app = typer.Typer(help="Show the policy in force, or check a policy file.", no_args_is_help=True, rich_markup_mode=None)


@app.command("show", short_help="Show what holds and where it comes from.")
def show(
    effective: Annotated[
        bool, typer.Option("--effective", help="Every value in force and where it comes from, not only yours.")
    ] = False,
    policy: options.PolicyFile = None,
    workspace: options.WorkspaceFolder = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Show what your files change in the default policy, or with --effective everything."""


@app.command("check", short_help="Check a policy file.")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A policy file.")],
    workspace: options.WorkspaceFolder = Path(),
) -> None:
    """Read a policy file as a session would; exit code 2 and one sentence where it cannot be used."""
    from foregate.policy.load import load

    loaded = load(file, workspace)
    typer.echo(f"{file}: usable; policy hash {loaded.policy.hash}")

"""`foregate policy` and `foregate config`: what holds, where it comes from, and whether a file can be used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from foregate.assembly.home import open_home_log
from foregate.cli.commands import options
from foregate.cli.commands.options import take
from foregate.cli.terminal.exit_codes import COMPLETED, USAGE, run_async

app = options.build_group("Show the policy in force, or check a policy file.")
config_app = options.build_group("Show the configuration of plan mode, or check a file of it.")
File = Annotated[str, typer.Argument(metavar="FILE", help="A policy file, or `classic`.")]


@app.command("show", short_help="Show what holds and where it comes from.")
def show(
    effective: Annotated[
        bool, take("--effective", "Every value in force and where it comes from, not only yours.")
    ] = False,
    policy: options.PolicyFile = None,
    workspace: options.WorkspaceFolder = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Show what your files change in the default policy, or with --effective everything."""
    from foregate.assembly.open import find_policy_file
    from foregate.policy.source.load import load_policy_layers
    from foregate.policy.source.values import build_policy_rows, format_policy

    loaded = load_policy_layers(find_policy_file(policy, os.environ), require_folder(workspace))
    if as_json:
        rows = build_policy_rows(loaded, effective)
        options.print_json({"hash": loaded.policy.hash, "sources": list(loaded.sources), "values": rows})
        return
    for line in format_policy(loaded, effective):
        options.print_text(line)


@app.command("check", short_help="Check a policy file.")
def check(file: File, as_json: options.AsJson = False) -> None:
    """Name the problems of a policy file, one sentence each; exit code 2 where it cannot be used.

    Warnings, about what may not mean what it looks like, change nothing.
    """
    from foregate.policy.source.load import check_policy_file, list_surprises, resolve_policy_file

    named = resolve_policy_file(file)
    problems = check_policy_file(named)
    warnings = [] if problems else list_surprises(named)
    if as_json:
        options.print_json({"usable": not problems, "problems": problems, "warnings": warnings})
    else:
        options.print_problems([*problems, *(f"warning: {warning}" for warning in warnings)])
        if not problems:
            options.print_text(f"{file}: usable")
    raise typer.Exit(USAGE if problems else COMPLETED)


@app.command("what-if", short_help="Judge recorded sessions again under another policy file.")
def what_if(file: File, sessions: options.SessionNames = None, as_json: options.AsJson = False) -> None:
    """Judge recorded turns again as `foregate chat --policy FILE` would have, and show what comes out differently."""
    from foregate.assembly.home import find_sessions
    from foregate.audit.what_if import WhatIf
    from foregate.cli.commands.reports import build_summary_json, format_changes
    from foregate.policy.source.layers import read_layer
    from foregate.policy.source.load import check_policy_file, resolve_policy_file

    named = resolve_policy_file(file)
    if problems := check_policy_file(named):
        options.print_problems(problems)
        raise typer.Exit(USAGE)
    with open_home_log() as log:
        judged = WhatIf(log, read_layer(named, named.name, trusted=True))
        rows = judged.find_changes(run_async(find_sessions(log, sessions or ())))
        if as_json:
            for row in rows:
                options.print_json(row.to_json())
            options.print_json(build_summary_json(judged.tally, named.name))
        else:
            for line in format_changes(rows, judged.tally, named.name):
                typer.echo(line)


def require_folder(workspace: Path) -> Path:
    """Return the workspace's path; raise WorkspaceError when it is no folder."""
    from foregate.agent.workspace.local import LocalWorkspace

    space = LocalWorkspace(workspace)
    space.close()
    return space.root


@config_app.command("show", short_help="Show what holds and where it comes from.")
def show_configuration(
    effective: Annotated[bool, take("--effective", "Every value in force, explained, and not only yours.")] = False,
    config: options.ConfigFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what your file changes in the default configuration, or with --effective everything."""
    from foregate.agent.planning.format.configuration import (
        FILE,
        lay_over_defaults,
        read_explanations,
    )
    from foregate.policy.source.values import build_rows, format_rows

    loaded = lay_over_defaults(FILE.find(config))
    rows = build_rows(loaded.values, loaded.provenance, effective)
    if as_json:
        options.print_json({"sources": list(loaded.sources), "values": rows})
        return
    explanations = read_explanations() if effective else {}
    for row, line in zip(rows, format_rows(rows), strict=True):
        if why := explanations.get(row["key"]):
            options.print_text(f"# {why}")
        options.print_text(line)
    if not rows:
        typer.echo("nothing differs from the default configuration")


@config_app.command("check", short_help="Check a configuration file.")
def check_file(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A configuration file; else the one a session would read.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Name the problems of a configuration file, one sentence each; exit code 2 where it cannot be used."""
    from foregate.agent.planning.format.configuration import FILE, check_configuration

    named = FILE.find(file)
    problems = check_configuration(named) if named is not None else []
    if as_json:
        options.print_json({"file": str(named) if named else None, "usable": not problems, "problems": problems})
    else:
        options.print_problems(problems)
        if not problems:
            options.print_text(f"{named}: usable" if named else "there is no file, so the defaults hold")
    raise typer.Exit(USAGE if problems else COMPLETED)

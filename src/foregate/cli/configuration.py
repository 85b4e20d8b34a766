"""`foregate config`: the configuration of plan mode."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foregate.cli import options
from foregate.cli.options import take
from foregate.views.terminal.exit_codes import COMPLETED, USAGE

app = options.build_group()


@app.command("show", short_help="Show what holds and where it comes from.")
def show_configuration(
    effective: Annotated[bool, take("--effective", "Every value in force, explained, and not only yours.")] = False,
    config: options.ConfigFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what your file changes in the default configuration, or with --effective everything."""
    from foregate.agent.planning.configuration import (
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


@app.command("check", short_help="Check a configuration file.")
def check_file(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A configuration file; else the one a session would read.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Name the problems of a configuration file, one sentence each; exit code 2 where it cannot be used."""
    from foregate.agent.planning.configuration import FILE, check_configuration

    named = FILE.find(file)
    problems = check_configuration(named) if named is not None else []
    if as_json:
        options.print_json({"file": str(named) if named else None, "usable": not problems, "problems": problems})
    else:
        options.print_problems(problems)
        if not problems:
            options.print_text(f"{named}: usable" if named else "there is no file, so the defaults hold")
    raise typer.Exit(USAGE if problems else COMPLETED)

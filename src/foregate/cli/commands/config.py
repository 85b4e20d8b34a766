"""`foregate config`: the configuration of plan mode, where it comes from, and whether a file can be used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import options

if TYPE_CHECKING:
    from foregate.agent.planning.format.configuration import LoadedConfiguration

config_app = typer.Typer(
    help="Show the configuration of plan mode, or check a file of it.", no_args_is_help=True, rich_markup_mode=None
)


@config_app.command("show", short_help="Show what holds and where it comes from.")
def show_configuration(
    effective: Annotated[
        bool, typer.Option("--effective", help="Every value in force, explained, and not only yours.")
    ] = False,
    config: options.ConfigFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what your file changes in the default configuration, or with --effective everything."""
    from foregate.agent.planning.format.configuration import find_configuration_file, lay_over_defaults
    from foregate.cli.terminal.layout import make_visible
    from foregate.cli.terminal.scripting import to_json_line
    from foregate.policy.source.values import build_rows

    loaded = lay_over_defaults(find_configuration_file(config))
    rows = build_rows(loaded.values, loaded.provenance, effective)
    if as_json:
        typer.echo(to_json_line({"sources": list(loaded.sources), "values": rows}))
        return
    for line in format_configuration(loaded, effective):
        typer.echo(make_visible(line))
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
    from foregate.agent.planning.format.configuration import check_configuration, find_configuration_file
    from foregate.cli.terminal.exit_codes import COMPLETED, USAGE
    from foregate.cli.terminal.layout import make_visible
    from foregate.cli.terminal.scripting import to_json_line

    named = find_configuration_file(file)
    problems = check_configuration(named) if named is not None else []
    if as_json:
        typer.echo(to_json_line({"file": str(named) if named else None, "usable": not problems, "problems": problems}))
    else:
        for sentence in problems:
            typer.echo(f"foregate: {make_visible(sentence)}", err=True)
        if not problems:
            typer.echo(make_visible(f"{named}: usable") if named else "there is no file, so the defaults hold")
    raise typer.Exit(USAGE if problems else COMPLETED)


def format_configuration(loaded: LoadedConfiguration, effective: bool) -> Iterator[str]:
    """Yield lines `key: value  # where from`, each of all of them below the comment that explains it."""
    from foregate.agent.planning.format.configuration import read_explanations
    from foregate.policy.source.values import build_rows, format_rows

    told = read_explanations() if effective else {}
    rows = build_rows(loaded.values, loaded.provenance, effective)
    for row, line in zip(rows, format_rows(rows), strict=True):
        if why := told.get(row["key"]):
            yield f"# {why}"
        yield line

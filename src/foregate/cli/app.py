"""The commands, one function each; what they do lies in the modules they import when called."""

from __future__ import annotations

import asyncio
import sys

import typer

from foregate.schemas.errors import ForegateError

app = typer.Typer(
    name="foregate",
    help="An agent loop that checks before it acts.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def about() -> None:
    """An agent loop that checks before it acts."""


@app.command()
def demo() -> None:
    """Run a session with a scripted model in a temporary workspace and show every ruling."""
    from foregate.cli.demo import demo as show

    asyncio.run(show())


def run() -> None:
    """Run a command; an error meant for people is one line on standard error and exit code 1."""
    try:
        app()
    except ForegateError as error:
        print(f"foregate: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(1)

"""`foregate audit`: what was decided, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from foregate.assembly.home import find_address, open_home_log
from foregate.cli import options
from foregate.views.terminal.exit_codes import run_async

app = options.build_group(options.HomeGroup)
_DECISION = "SESSION/SEQ.GATE, with :CALL where it ruled on several; without SESSION/ of the newest session."


@app.command("explain", short_help="Explain one decision, and what would have changed it.")
def explain(
    decision: Annotated[str, typer.Argument(metavar="DECISION", help=_DECISION)],
    as_json: options.AsJson = False,
) -> None:
    """Explain a decision: what was asked, the ruling, its numbers, what would have changed it, and what came next."""
    from rich.console import Console

    from foregate.cli.reports import format_explanation
    from foregate.tuning.explanation import explain as explain_decision

    console = Console(highlight=False, emoji=False, markup=False)
    with open_home_log() as log:
        found = explain_decision(log, *run_async(find_address(log, decision)))
    if as_json:
        options.print_json(found.to_json())
        return
    for line in format_explanation(found, min(console.width, 100) if console.is_terminal else 80):
        typer.echo(line)

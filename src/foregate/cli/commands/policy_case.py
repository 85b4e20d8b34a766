"""`foregate policy case`: a recorded decision as a case to test policies by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foregate.assembly.home import open_home_log
from foregate.cli.commands import options
from foregate.cli.commands.new_file import write_new
from foregate.cli.commands.options import take
from foregate.cli.commands.policy import app
from foregate.cli.terminal.exit_codes import run_async

Decision = Annotated[
    str, typer.Argument(metavar="SESSION:SEQ.GATE", help="A decision, as `foregate audit show` lists them.")
]


@app.command("case")
def case(
    decision: Decision,
    name: Annotated[str, take("--name", "What the case is called; else after its verdict.", "NAME")] = "",
    output: Annotated[Path | None, take("--output", "Write the case there instead of printing it.", "FILE")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Cut a recorded decision to the smallest case with the same verdict that notices the same policy changes."""
    from foregate.assembly.home import find_address
    from foregate.telemetry.queries.rulings import find_decision
    from foregate.tuning.case_cutting import cut_recorded
    from foregate.tuning.case_file import dump_case, format_case

    with open_home_log() as log:
        ruled = find_decision(log, *run_async(find_address(log, decision)))
        found = cut_recorded(log, ruled, name)
    if as_json:
        options.print_json(dump_case(found))
        return
    text = format_case(found, f"A case for `foregate policy test`, from {ruled.address}.")
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_new(output, text)
        options.print_text(f"{output}: {found.name}, {found.expected.describe()}")
